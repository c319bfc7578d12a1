"""How large the loss's gradient is on each task, which the prior stands against.

usage: python experiments/lab/gradients.py RESULTS --models DIR --features DIR [--tasks stsb mrpc cola rte]

The model is trained dense and unclipped for some steps, as a cell of grid.py is with a seed of 0. RESULTS gets one
line a task: the norm of the whole gradient, and its root mean square over the weights that may be pruned.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from cut import steps
from torch import Tensor, nn
from train import load, loss_of, padding_of, split

from mgpp.run.result import provenance
from mgpp.targets import find_targets

CELL = {"name": "gradients", "model": "minilm", "method": None, "lr": 1e-4, "held_out": True, "seed": 0}
STEPS, PART = 60, 20


def run(task: str, models: Path, features: Path) -> dict[str, Any]:
    torch.manual_seed(CELL["seed"])
    cell, folder = {**CELL, "task": task}, models / CELL["model"]
    rows, _ = split(features / CELL["model"] / f"{task}.safetensors", cell, padding_of(folder), "cpu")
    model, loss = load(folder, rows).train(), loss_of(cell, rows, None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=CELL["lr"], weight_decay=0.0)
    seen = []
    for _, chosen in zip(range(STEPS), steps(rows, CELL["seed"]), strict=False):
        index = torch.as_tensor(chosen)
        optimizer.zero_grad()
        loss(model(**rows.batch(index, rows.width(chosen))).logits, index).backward()
        seen.append(_sizes(model))
        optimizer.step()
    return {"cell": cell, "train_rows": len(rows), "first": _means(seen[:PART]), "last": _means(seen[-PART:])}


def _sizes(model: nn.Module) -> tuple[float, float]:
    targets = list(find_targets(model).values())
    size = sum(weight.numel() for weight in targets)
    return float(_norm(list(model.parameters()))), float(_norm(targets)) / size**0.5


def _norm(params: list[nn.Parameter]) -> Tensor:
    return nn.utils.get_total_norm([param.grad for param in params if param.grad is not None])


def _means(seen: list[tuple[float, float]]) -> dict[str, float]:
    norms, each = zip(*seen, strict=True)
    return {"norm": sum(norms) / len(seen), "a_weight": sum(each) / len(seen)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", default=["stsb", "mrpc", "cola", "rte"])
    args = parser.parse_args()
    for task in args.tasks:
        line = {**run(task, args.models, args.features), **provenance()}
        with args.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(task, line["first"], line["last"], flush=True)


if __name__ == "__main__":
    main()
