"""Tokenise tasks once, into one small file each, so that a machine without `datasets` can train on them.

usage: python experiments/lab/features.py MODEL DATA OUTPUT TASK...      (DATA/<task> holds the task's parquet files)

Rows of an `unlabelled.parquet` beside them (glue/unlabelled.py) become a part of that name.
"""

import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from safetensors.torch import save_file

from mgpp.tasks import training_task
from mgpp.tasks.source import Source
from mgpp.tasks.task import Task

LENGTH = 128
UNLABELLED = "unlabelled"  # as rows.py reads it


def pack(rows: Any, labels: Any) -> dict[str, torch.Tensor]:
    """Tokens one after another; row i ends at ends[i]."""
    kinds = rows.column_names if hasattr(rows, "column_names") else rows
    packed = {
        "ids": torch.tensor([token for row in rows["input_ids"] for token in row], dtype=torch.int32),
        "ends": torch.tensor([len(row) for row in rows["input_ids"]], dtype=torch.int64).cumsum(0),
        "labels": torch.as_tensor(labels),
    }
    if "token_type_ids" in kinds:
        packed["types"] = torch.tensor([kind for row in rows["token_type_ids"] for kind in row], dtype=torch.uint8)
    return packed


def pack_unlabelled(path: Path, task: Task, like: torch.Tensor) -> dict[str, torch.Tensor]:
    columns = pq.read_table(path, columns=list(task.texts)).to_pydict()
    rows = task.tokenizer(*[columns[name] for name in task.texts], truncation=True, max_length=LENGTH)
    nothing = float("nan") if like.is_floating_point() else -1
    return pack(rows, torch.full((len(rows["input_ids"]),), nothing, dtype=like.dtype))


def main(model: str, data: str, output: str, *tasks: str) -> None:
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    for name in tasks:
        source = Source(data=str(Path(data) / name), max_length=LENGTH)
        task = training_task(name, model, source, seed=0, new_head=True)
        scored = task.evaluation
        sets = {"train": task.train, **(scored if isinstance(scored, dict) else {"validation": scored})}
        packed = {part: pack(rows, list(rows["labels"])) for part, rows in sets.items()}
        unlabelled = Path(data) / name / f"{UNLABELLED}.parquet"
        if unlabelled.exists():
            packed[UNLABELLED] = pack_unlabelled(unlabelled, task, packed["train"]["labels"])
        tensors = {f"{part}.{key}": value for part, each in packed.items() for key, value in each.items()}
        save_file(tensors, folder / f"{name}.safetensors", metadata={"metric": task.metric})
        print(name, {part: len(each["labels"]) for part, each in packed.items()}, task.metric, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
