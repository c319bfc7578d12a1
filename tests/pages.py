"""The pages of the documentation, the code in them, and what that code finds around it.

A python block runs by itself, in a folder that holds
    MODEL   a tiny BERT, with its tokenizer
    DATA    reviews to train on and to score
    out     what `mgpp prune MODEL DATA --output out` left there
and with these names given to it:
    model, teacher     tiny BERT classifiers
    args               TrainingArguments for twelve steps on the CPU
    train              a list of tokenized rows with labels; n is how many
    optimizer          AdamW over the model; T is the number of its steps
    tokenizer, inputs  MODEL's tokenizer, and a tokenized batch
    dataset            a DatasetDict with MRPC's columns
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, DatasetDict
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, TrainingArguments

from mgpp.targets import find_targets

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """What stands between two fences of a page, from `line` on."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    name = page.relative_to(ROOT).as_posix()
    return [Block(name, text.count("\n", 0, match.start()) + 2, match[1], match[2]) for match in found]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def commands_in(block: Block) -> Iterator[list[str]]:
    """The words of every `mgpp …` line, comments left out, continued lines joined."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith("mgpp "):
            yield shlex.split(line, comments=True)[1:]


def code_in_sentences(page: Path) -> list[str]:
    """What stands between single backticks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]


def given(folder: Path, tiny_bert: Path) -> dict[str, Any]:
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
        output_dir=str(folder / "trained"),
        max_steps=12,
        per_device_train_batch_size=4,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    train = [{"input_ids": torch.randint(0, 50, (8,)), "labels": torch.tensor(i % 2)} for i in range(48)]
    model = BertForSequenceClassification(config)
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    pairs = Dataset.from_list([{"sentence1": "a film", "sentence2": "the plot", "label": i % 2} for i in range(48)])
    return {
        "model": model,
        "teacher": BertForSequenceClassification(config),
        "args": args,
        "train": train,
        "n": len(train),
        "optimizer": torch.optim.AdamW(model.parameters()),
        "T": 10_000,
        "tokenizer": tokenizer,
        "inputs": tokenizer(["a great film"], return_tensors="pt"),
        "dataset": DatasetDict(train=pairs, validation=pairs),
    }


def count_zeros(model: torch.nn.Module) -> int:
    return sum(weight.numel() - int(weight.count_nonzero()) for weight in find_targets(model).values())
