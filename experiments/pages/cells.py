"""The laboratory's results on GLUE: lines of experiments/glue/results, and which of the cells of grid.py they are."""

import json
from pathlib import Path
from typing import Any

from experiments.glue import grid

RESULTS = Path(__file__).parent.parent / "glue" / "results"
LABELS = {"cola": "CoLA", "mrpc": "MRPC", "rte": "RTE", "stsb": "STS-B", "sst2": "SST-2"}
LABELS |= {task: task.upper() for task in ("mnli", "qnli", "qqp")}
Cell = dict[str, Any]
Line = dict[str, Any]


def lines_of(model: str, what: str) -> list[Line]:
    """What has come back so far of `what` (glue/run.sh): of a cell that was run twice, the last."""
    path = RESULTS / f"{model}-{what}.jsonl"
    if not path.exists():
        return []
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return list({key_of(line["cell"]): line for line in lines if "error" not in line}.values())


def command_of(model: str, what: str) -> str:
    return f"python experiments/lab/work.py CELLS experiments/glue/results/{model}-{what}.jsonl"


def key_of(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True)


def planned_among(lines: list[Line], cells: list[Cell]) -> list[Line]:
    """The lines of these cells: one of older settings is left out."""
    planned = {key_of(cell) for cell in cells}
    return [line for line in lines if key_of(line["cell"]) in planned]


def named(line: Line, name: str) -> Line:
    """The same under another name, to stand beside those that have it."""
    return {**line, "cell": {**line["cell"], "name": name}}


def score_of(line: Line) -> float:
    """The task's metric on the one set that the cell was scored on."""
    (scores,) = line["metrics"].values()
    return scores[line["metric"]]


def sparsity_of(cell: Cell) -> float:
    return 0.0 if cell["method"] is None else cell["method"]["sparsity"]


def told_tasks(lines: list[Line], tasks: list[str]) -> list[str]:
    """Column heads: a task with its metric, once a line has said which that is."""
    metrics = {line["cell"]["task"]: line["metric"] for line in lines}
    return [", ".join(filter(None, [LABELS[task], metrics.get(task)])) for task in tasks]


def in_table(model: str, which: str = "table") -> list[str]:
    return ["dense", *grid.planned(model, which).names]
