"""Experiments of a few runs, each a JSON file of `mgpp finetune` or `mgpp prune`."""

import json
from pathlib import Path
from typing import Any

from experiments.pages.text import joined, made_by, table

EXPERIMENTS = Path(__file__).parent.parent
TASKS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")


def read(folder: str, name: str) -> dict[str, Any]:
    return json.loads((EXPERIMENTS / folder / "results" / f"{name}.json").read_text(encoding="utf-8"))


def levels() -> str:
    found = {task: read("levels", task) for task in TASKS}
    rows = [
        [
            task,
            f"{result['train_rows']:,}",
            f"{result['eval_rows']:,}",
            ", ".join(f"{name} {value:.3f}" for name, value in result["after"].items() if "loss" not in name),
            f"{result['loader_share']:.1%}",
        ]
        for task, result in found.items()
    ]
    head = ["task", "trained on", "scored on", "dense", "waiting for data"]
    return joined(table(head, rows), made_by("experiments/levels/run.sh MODEL DATA OUT", found.values()))


def squad() -> str:
    found = {name: read("squad", name) for name in ("dense", "mgpp-80")}
    rows = [
        [name, f"{result['sparsity']:.0%}", f"{result['after']['exact_match']:.3f}", f"{result['after']['f1']:.3f}"]
        for name, result in found.items()
    ]
    command = "experiments/squad/run.sh MODEL DATA OUT --train-split train_partial --epochs 4"
    return joined(table(["", "sparsity", "exact match", "F1"], rows), made_by(command, found.values()))


def upstream() -> str:
    found = {name: read("upstream", name) for name in ("held", "downstream")}
    told = {"held": "removed upstream, held on SST-2", "downstream": "removed on SST-2"}
    rows = [
        [told[name], f"{result['sparsity']:.0%}", f"{result['after']['accuracy']:.3f}"]
        for name, result in found.items()
    ]
    command = "experiments/upstream/run.sh MODEL WIKIPEDIA SST2 OUT 1500"
    return joined(table(["", "sparsity", "accuracy"], rows), made_by(command, found.values()))
