"""Questions and documents that a tiny model can learn from, and an encoder-decoder small enough to train in seconds."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

from tests.tiny import BAD, FILLER, GOOD, write_jsonl

BART_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
# Two layers on each side, width 16: self-attention, cross-attention in the decoder, two feed-forward matrices.
BART_PRUNABLE = 2 * (4 * 16 * 16 + 2 * 16 * 32) + 2 * (8 * 16 * 16 + 2 * 16 * 32)


def save_tiny_bart(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    words = [*BART_SPECIAL, *FILLER, *GOOD, *BAD, ".", "-"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("</s>", 2), ("<s>", 0))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=64,
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    layers = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = BartConfig(
        vocab_size=len(words),
        d_model=16,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
        init_std=0.2,
        **{**layers, **changes},
    )
    BartForConditionalGeneration(config).save_pretrained(folder)
    return folder


def questions(count: int, *, seed: int = 0, words: int = 12) -> list[dict[str, Any]]:
    """In SQuAD's columns: which word is a good one?"""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        text = draw.choices(FILLER, k=words)
        place, answer = draw.randrange(words), draw.choice(GOOD)
        text.insert(place, answer)
        start = len(" ".join([*text[:place], ""]))
        made.append(
            {
                "id": str(number),
                "title": "films",
                "context": " ".join(text),
                "question": "what was the film",
                "answers": {"text": [answer], "answer_start": [start]},
            }
        )
    return made


def documents(count: int, *, seed: int = 0, columns: tuple[str, str] = ("document", "summary")) -> list[dict[str, Any]]:
    """A summary says whether a good word or a bad one is in the document."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        word = draw.choice((GOOD[0], BAD[0]))
        text = draw.choices(FILLER, k=draw.randrange(4, 9))
        text.insert(draw.randrange(len(text)), word)
        made.append(dict(zip(columns, (" ".join(text), f"the film was {word} ."), strict=True)))
    return made


@pytest.fixture(scope="session")
def tiny_bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bart(tmp_path_factory.mktemp("tiny") / "bart")


@pytest.fixture(scope="session")
def tiny_questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "questions"
    write_jsonl(folder / "train.jsonl", questions(96, seed=1))
    write_jsonl(folder / "validation.jsonl", questions(24, seed=2))
    return folder


@pytest.fixture(scope="session")
def tiny_documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "documents"
    write_jsonl(folder / "train.jsonl", documents(96, seed=1))
    write_jsonl(folder / "validation.jsonl", documents(24, seed=2))
    return folder
