"""A BERT small enough to train in a second, with a real WordPiece tokenizer, and reviews that it can learn."""

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast, TrainerCallback

GOOD = ("great", "warm", "funny", "clever", "moving")
BAD = ("dull", "cold", "lame", "stupid", "boring")
FILLER = ("the", "film", "plot", "cast", "a", "is", "was", "and", "very", "rather")
PRUNABLE = 2 * (4 * 16 * 16 + 2 * 16 * 32)
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
