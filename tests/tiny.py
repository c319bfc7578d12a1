"""A BERT small enough to train in a second, with a real WordPiece tokenizer, and reviews that it can learn."""

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizerFast,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedTokenizerFast,
    TrainerCallback,
)

GOOD = ("great", "warm", "funny", "clever", "moving")
BAD = ("dull", "cold", "lame", "stupid", "boring")
FILLER = ("the", "film", "plot", "cast", "a", "is", "was", "and", "very", "rather")
PRUNABLE = 2 * (4 * 16 * 16 + 2 * 16 * 32)
# 4 experts of 3 matrices; 2 · (2·16·16 + 2·8·16 + 4·3·24·16) weights to prune.
MIXTRAL: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "intermediate_size": 24, "num_local_experts": 4, "max_position_embeddings": 128,
}  # fmt: skip
RAMP: dict[str, Any] = {"sparsity": 0.75, "start": 2, "end": 8, "every": 2}


def save_tiny_bert(folder: Path, *, seed: int = 0) -> Path:
    """Two layers of width 16: 4,096 prunable weights."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *FILLER, *GOOD, *BAD]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=128).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=128,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def save_tiny_decoder(folder: Path, *, kind: str = "llama") -> Path:
    """A Llama, Mixtral or GPT-2 of two layers of width 16, with a tokenizer of whole words that ends texts by </s>."""
    words = ["<unk>", "<s>", "</s>", *FILLER, *GOOD, *BAD]
    model = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    model.pre_tokenizer = Whitespace()
    tokens = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=model, model_max_length=128, **tokens).save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"vocab_size": len(words), "bos_token_id": 1, "eos_token_id": 2}
    if kind == "llama":
        llama = LlamaConfig(
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=128,
            **shape,
        )
        LlamaForCausalLM(llama).save_pretrained(folder)
    elif kind == "mixtral":
        MixtralForCausalLM(MixtralConfig(**MIXTRAL, **shape)).save_pretrained(folder)
    else:
        GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=128, **shape)).save_pretrained(folder)
    return folder


def documents(count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Texts in which every word is followed by the next of FILLER: whoever has learnt that can guess them."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        begin = draw.randrange(len(FILLER))
        words = [FILLER[(begin + number) % len(FILLER)] for number in range(draw.randrange(5, 40))]
        made.append({"text": " ".join(words)})
    return made


def save_corpus(folder: Path, *, train: int = 120, validation: int = 30) -> Path:
    write_jsonl(folder / "train.jsonl", documents(train, seed=1))
    write_jsonl(folder / "validation.jsonl", documents(validation, seed=2))
    return folder


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_decoder(tmp_path_factory.mktemp("tiny") / "llama")


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_corpus(tmp_path_factory.mktemp("tiny") / "corpus")


def reviews(count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """{"text": ..., "label": 0 or 1}: a review is good when a good word is in it."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        label = draw.randrange(2)
        words = draw.choices(FILLER, k=draw.randrange(3, 12))
        words.insert(draw.randrange(len(words)), draw.choice(GOOD if label else BAD))
        made.append({"text": " ".join(words), "label": label})
    return made


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("tiny") / "bert")


@pytest.fixture(scope="session")
def tiny_reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_reviews(tmp_path_factory.mktemp("tiny") / "reviews")


def save_reviews(folder: Path, *, train: int = 48, validation: int = 32) -> Path:
    write_jsonl(folder / "train.jsonl", reviews(train, seed=1))
    write_jsonl(folder / "validation.jsonl", reviews(validation, seed=2))
    return folder


class At(TrainerCallback):
    """Does something at the end of one step."""

    def __init__(self, step: int, act) -> None:
        self.step, self.act = step, act

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            self.act(kwargs["model"])


def poison(model: torch.nn.Module) -> None:
    """As a bad batch would: the next loss is NaN, the weights themselves are whole."""

    def forward(*args, **kwargs):
        output = type(model).forward(model, *args, **kwargs)
        output.loss = output.loss * float("nan")
        return output

    model.forward = forward
