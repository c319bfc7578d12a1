"""Every method has a card, with the same headings, and the code in it runs.

Each python block runs by itself, with these names given to it:
    model   a tiny BERT classifier
    args    TrainingArguments for twelve steps on the CPU
    train   a list of tokenized rows with labels
"""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

from mgpp.methods import METHODS
from mgpp.targets import find_targets

CARDS = Path(__file__).parent.parent / "docs" / "methods"
HEADINGS = [
    "What it does",
    "Equation",
    "Use it",
    "Settings that work",
    "Where it departs from its paper",
    "Results",
    "Cost",
    "Citation",
]


def text_of(name: str) -> str:
    return (CARDS / f"{name}.md").read_text(encoding="utf-8")


def blocks_of(name: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text_of(name), flags=re.MULTILINE | re.DOTALL)


def given(folder: Path) -> dict[str, Any]:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
    )
    args = TrainingArguments(
        output_dir=str(folder),
        max_steps=12,
        per_device_train_batch_size=4,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    rows = [{"input_ids": torch.randint(0, 50, (8,)), "labels": torch.tensor(i % 2)} for i in range(48)]
    return {"model": BertForSequenceClassification(config), "args": args, "train": rows}


def test_every_method_has_a_card_and_every_card_a_method():
    assert {path.stem for path in CARDS.glob("*.md")} == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_card_has_the_headings_of_all_cards(name):
    assert re.findall(r"^## (.+)$", text_of(name), flags=re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("name", METHODS)
def test_the_code_of_a_card_runs_and_prunes(name, tmp_path):
    blocks = blocks_of(name)
    assert blocks
    for block in blocks:
        names = given(tmp_path)
        exec(compile(block, f"docs/methods/{name}.md", "exec"), names)
        weights = find_targets(names["model"]).values()
        zeros = sum(weight.numel() - int(weight.count_nonzero()) for weight in weights)
        assert zeros > 0
