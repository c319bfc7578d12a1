"""Tokenise tasks once, into one small file each, so that a machine without `datasets` can train on them.

usage: python experiments/lab/features.py MODEL DATA OUTPUT TASK...      (DATA/<task> holds the task's parquet files)
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from mgpp.tasks import training_task
from mgpp.tasks.source import Source

LENGTH = 128


def pack(rows) -> dict[str, torch.Tensor]:
    """Tokens one after another; row i ends at ends[i]."""
    packed = {
        "ids": torch.tensor([token for row in rows["input_ids"] for token in row], dtype=torch.int32),
        "ends": torch.tensor([len(row) for row in rows["input_ids"]], dtype=torch.int64).cumsum(0),
        "labels": torch.tensor(list(rows["labels"])),
    }
    if "token_type_ids" in rows.column_names:
        packed["types"] = torch.tensor([kind for row in rows["token_type_ids"] for kind in row], dtype=torch.uint8)
    return packed


def main(model: str, data: str, output: str, *tasks: str) -> None:
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    for name in tasks:
        source = Source(data=str(Path(data) / name), max_length=LENGTH)
        task = training_task(name, model, source, seed=0, new_head=True)
        scored = task.evaluation
        sets = {"train": task.train, **(scored if isinstance(scored, dict) else {"validation": scored})}
        tensors = {f"{part}.{key}": value for part, rows in sets.items() for key, value in pack(rows).items()}
        save_file(tensors, folder / f"{name}.safetensors", metadata={"metric": task.metric})
        print(name, {part: len(rows) for part, rows in sets.items()}, task.metric, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
