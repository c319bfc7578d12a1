"""Table 1: every method on the validation sets, beside its memory and the time of its step."""

import json
import statistics
from pathlib import Path
from typing import Any

from experiments.glue import grid
from experiments.pages.cells import (
    Line,
    command_of,
    in_table,
    lines_of,
    planned_among,
    score_of,
    sparsity_of,
    told_tasks,
)
from experiments.pages.text import joined, made_by, progress, spread, table

STEPS = Path(__file__).parent.parent.parent / "benchmarks" / "results" / "h200-overhead-bert-base.json"
TASKS = list(grid.EPOCHS)
# Of each model, so that a method's bytes can be told by the weight.
PRUNABLE = {"minilm": 10_616_832, "mpnet-base": 84_934_656, "deberta-v3-xsmall": 21_233_664}


def table1(model: str) -> str:
    lines = lines_in_table(model)
    planned = len(grid.SEEDS) * len(TASKS) * (1 + (len(in_table()) - 1) * len(grid.SPARSITIES))
    missing = progress(len(lines), planned)
    if not lines:
        return missing
    tables = [part for sparsity in grid.SPARSITIES for part in (f"{sparsity:.0%}:", _at(sparsity, model, lines))]
    return joined(missing, *tables, made_by(command_of(model, "table"), lines), _step_made_by())


def lines_in_table(model: str) -> list[Line]:
    """Those of the settings that were chosen: an earlier choice's are left out."""
    chosen = grid.best(lines_of(model, "choose"))
    cells = grid.table(model, chosen) if "dense" in chosen else []
    return planned_among(lines_of(model, "table"), cells)


def _at(sparsity: float, model: str, lines: list[Line]) -> str:
    names = in_table()
    columns = [*[_by_seed(lines, sparsity, [task]) for task in TASKS], _by_seed(lines, sparsity, TASKS)]
    shown = [_column(found) for found in columns]
    rows = [[name, *[column[name] for column in shown], _bytes(name, model, lines), _step(name)] for name in names]
    head = ["", *told_tasks(lines, TASKS), "mean", "bytes a weight", "ms a step"]
    return table(head, rows)


Scores = dict[str, list[float]]


def _by_seed(lines: list[Line], sparsity: float, tasks: list[str]) -> Scores:
    """Of each method the mean over these tasks, for every seed that has all of them."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for line in lines:
        cell = line["cell"]
        if cell["task"] in tasks and sparsity_of(cell) in (0.0, sparsity):
            found.setdefault((cell["name"], cell["seed"]), {})[cell["task"]] = score_of(line)
    scores: Scores = {name: [] for name in in_table()}
    for (name, _), each in found.items():
        if len(each) == len(tasks):
            scores[name].append(statistics.fmean(each.values()))
    return scores


def _column(scores: Scores) -> dict[str, str]:
    """In bold the best that is pruned and has no teacher, but not while a rival lacks some of its seeds."""
    rivals = {name: values for name, values in scores.items() if values and _competes(name)}
    is_whole = all(len(values) == len(grid.SEEDS) for values in rivals.values())
    means = {name: round(statistics.fmean(values), 3) for name, values in rivals.items() if is_whole}
    top = max(means.values(), default=None)
    shown = {name: spread(values, len(grid.SEEDS)) for name, values in scores.items()}
    return {name: f"**{text}**" if name in means and means[name] == top else text for name, text in shown.items()}


def _competes(name: str) -> bool:
    return name != "dense" and name not in grid.TAUGHT


def _bytes(name: str, model: str, lines: list[Line]) -> str:
    kept = [line.get("memory", 0) for line in lines if line["cell"]["name"] == name]
    return f"{max(kept) / PRUNABLE[model]:.3g}" if kept else ""


def _step(name: str) -> str:
    """What the device takes for a step of BERT-base, with mgpp.AdamW where that was measured."""
    measured = {row["name"]: row.get("device_ms") for row in _newest()["rows"]}
    side = _side(name)
    found = measured.get(f"{side}, mgpp.AdamW", measured.get(side))
    return "" if found is None else f"{found:.1f}"


def _side(name: str) -> str | None:
    """What the benchmark calls a method with these settings; it has none with a teacher."""
    if name == "dense":
        return "plain"
    method = grid.METHODS[name][0] if name in grid.METHODS else grid.DEAR.get(name)
    if method is None:
        return None
    parts = {"curvature": method.get("score") == "curvature", "decoupled": method.get("decoupled", False)}
    return " ".join([method["method"], *[part for part, has in parts.items() if has]])


def _newest() -> dict[str, Any]:
    return json.loads(STEPS.read_text(encoding="utf-8"))[-1]


def _step_made_by() -> str:
    newest = _newest()
    return f"ms a step: {made_by(newest['command'], [newest])}"
