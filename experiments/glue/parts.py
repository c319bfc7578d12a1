"""The train sets of Table 2, of the parts that can be had without a hub: real rows, but not the official sets.

usage: python experiments/glue/parts.py DATA OUTPUT

DATA holds the parts as parquet files under the benchmark's columns. OUTPUT/<task> gets `train` and the set to score on.
A train row that shares a text with a row to be scored on is dropped, as is one that is there already; letters' case
and spaces make no difference.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 0
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Parts:
    train: dict[str, int | None]  # a file, and how many of its first rows
    scored: str
    scored_as: str
    texts: tuple[str, str]


TASKS = {
    "mnli": Parts(
        train={"mnli/train_partial": None, "snli/train_100k": 40_000},
        scored="mnli/validation_matched",
        scored_as="validation_matched",
        texts=("premise", "hypothesis"),
    ),
    "qnli": Parts(
        train={"qnli/train_partial": None, "qnli/train_derived": None},
        scored="qnli/validation",
        scored_as="validation",
        texts=("question", "sentence"),
    ),
    "qqp": Parts(
        train={"qqp/train_partial": None},
        scored="qqp/validation_partial",
        scored_as="validation",
        texts=("question1", "question2"),
    ),
}


def make(task: str, data: Path, output: Path) -> str:
    """Writes one task's files, and says how many rows were dropped."""
    parts = TASKS[task]
    scored = _rows(data, parts.scored, parts.texts)
    rows = [row for name, most in parts.train.items() for row in _rows(data, name, parts.texts)[:most]]
    seen = {text for row in scored for text in _texts(row, parts.texts)}
    apart = [row for row in rows if seen.isdisjoint(_texts(row, parts.texts))]
    once = list({_texts(row, parts.texts): row for row in reversed(apart)}.values())[::-1]
    train = [once[place] for place in np.random.default_rng(SEED).permutation(len(once))]
    folder = output / task
    folder.mkdir(parents=True, exist_ok=True)
    for name, each in (("train", train), (parts.scored_as, scored)):
        numbered = [{**row, "idx": idx} for idx, row in enumerate(each)]
        pq.write_table(pa.Table.from_pylist(numbered), folder / f"{name}.parquet", compression="zstd")
    dropped = (
        f"{len(rows) - len(apart):,} dropped that share a text with them, {len(apart) - len(once):,} that were double"
    )
    return f"{task}: {len(train):,} rows to train on, {len(scored):,} to score on; {dropped}"


def _rows(data: Path, name: str, texts: tuple[str, str]) -> list[Row]:
    return pq.read_table(data / f"{name}.parquet", columns=[*texts, "label"]).to_pylist()


def _texts(row: Row, names: tuple[str, str]) -> tuple[str, ...]:
    return tuple(" ".join(row[name].casefold().split()) for name in names)


def main(data: str, output: str) -> None:
    for task in TASKS:
        print(make(task, Path(data), Path(output)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
