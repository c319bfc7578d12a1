"""The paper's numbers on the tasks that are also run here, and what the same methods give here."""

import statistics
import tomllib
from pathlib import Path
from typing import Any

from experiments.glue import grid
from experiments.pages.cells import LABELS, Line, command_of, sparsity_of
from experiments.pages.glue import lines_in_table
from experiments.pages.text import Rows, joined, made_by, points, table

PAPER = Path(__file__).parent.parent / "glue" / "paper.toml"
TASKS = grid.TABLES["table"].tasks
# Its name of a method, and grid.py's.
OURS = {"MvP": "Movement", "MGPP": "MGPP (paper)"}
METRICS = {"mrpc": ("accuracy", "f1"), "stsb": ("pearson", "spearman"), "cola": ("matthews",)}


def paper(model: str) -> str:
    told = tomllib.loads(PAPER.read_text(encoding="utf-8"))["row"]
    lines = lines_in_table(model)
    rows: Rows = []
    for sparsity, method in dict.fromkeys((row["sparsity"], row["method"]) for row in sorted(told, key=_order)):
        rows += [_theirs(row) for row in told if (row["sparsity"], row["method"]) == (sparsity, method)]
        mine = [line for line in lines if _is(line, sparsity, OURS.get(method, method))]
        rows += [[f"{sparsity:.0%}", method, f"{model}, here", *[_mean(mine, task) for task in TASKS]]] if mine else []
    head = ["sparsity", "", "model", *[_head(task) for task in TASKS]]
    return joined(table(head, rows), made_by(command_of(model, "table"), lines))


def _order(row: dict[str, Any]) -> float:
    return row["sparsity"]


def _theirs(row: dict[str, Any]) -> list[str]:
    return [f"{row['sparsity']:.0%}", row["method"], row["model"], *[row.get(task, "") for task in TASKS]]


def _is(line: Line, sparsity: float, name: str) -> bool:
    return line["cell"]["name"] == name and sparsity_of(line["cell"]) == sparsity


def _mean(lines: list[Line], task: str) -> str:
    """Over the seeds there are, every metric that the paper has."""
    scores = [next(iter(line["metrics"].values())) for line in lines if line["cell"]["task"] == task]
    if not scores:
        return ""
    return "/".join(points(statistics.fmean(score[metric] for score in scores)) for metric in _metrics(task))


def _metrics(task: str) -> tuple[str, ...]:
    return METRICS.get(task, ("accuracy",))


def _head(task: str) -> str:
    return f"{LABELS[task]}, {'/'.join(_metrics(task))}"
