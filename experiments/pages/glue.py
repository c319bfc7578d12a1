"""Tables 1 and 2, and the task that larger models lack in the first: methods on the validation sets, beside their
memory and the time of their step."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.glue import grid, studies
from experiments.pages.cells import (
    LABELS,
    Line,
    command_of,
    in_table,
    lines_of,
    named,
    planned_among,
    score_of,
    sparsity_of,
    told_tasks,
)
from experiments.pages.text import joined, made_by, progress, spread, table

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks" / "results"
# What a step takes: of every method, and of the recommended form as it came to be.
STEPS = (BENCHMARKS / "h200-overhead-bert-base.json", BENCHMARKS / "h200-overhead-bert-base-faster.json")
# Of each model, so that a method's bytes can be told by the weight.
PRUNABLE = {"minilm": 10_616_832, "mpnet-base": 84_934_656, "deberta-v3-xsmall": 21_233_664}


FASTER = ", faster"  # a row of a table with a learning rate that follows what is left
FASTER_ROWS = {
    "table": ("faster", studies.faster),
    "table2": ("faster2", studies.faster2),
    "fifth": ("faster5", studies.faster5),
}


def table1(model: str) -> str:
    return _made(model, "table")


def table2(model: str) -> str:
    return _made(model, "table2")


def fifth(model: str) -> str:
    return _made(model, "fifth")


def _made(model: str, which: str) -> str:
    planned = grid.planned(model, which)
    lines = lines_in_table(model, which)
    missing = " ".join(filter(None, [progress(len(lines), planned.size), _not_begun(lines, planned.tasks)]))
    if not lines:
        return missing
    faster = lines_of_faster(model, which)
    tables = [
        part
        for sparsity in planned.sparsities
        for part in (f"{sparsity:.0%}:", _at(sparsity, model, which, [*lines, *faster]))
    ]
    made = [made_by(command_of(model, what), of) for what, of in ((which, lines), (FASTER_ROWS[which][0], faster))]
    return joined(missing, *tables, *made, _step_made_by())


def lines_in_table(model: str, which: str = "table") -> list[Line]:
    """Those of the settings that were chosen: an earlier choice's are left out."""
    chosen = grid.best(lines_of(model, "choose"))
    cells = grid.table(model, chosen, which) if "dense" in chosen else []
    return planned_among(lines_of(model, which), cells)


def lines_of_faster(model: str, which: str = "table") -> list[Line]:
    """Rows of the table with that rate, with the table's seeds, under names of their own."""
    what, study = FASTER_ROWS[which]
    planned = grid.planned(model, which)
    lines = planned_among(lines_of(model, what), study(model))
    mine = [line for line in lines if line["cell"]["seed"] in planned.seeds]
    return [named(line, line["cell"]["name"] + FASTER) for line in mine]


def rows_of_table(model: str, which: str, faster: list[Line]) -> list[str]:
    """Each that was run with that rate, too, stands under the one without."""
    found = {line["cell"]["name"] for line in faster}
    return [row for name in in_table(model, which) for row in (name, name + FASTER) if row == name or row in found]


def _at(sparsity: float, model: str, which: str, lines: list[Line]) -> str:
    planned = grid.planned(model, which)
    tasks, seeds, names = begun(lines, planned.tasks), len(planned.seeds), rows_of_table(model, which, lines)
    means = {"mean": tasks} if len(planned.tasks) > 1 else {}  # of one task it would be the task's own column again
    columns = {**{told: [task] for told, task in zip(told_tasks(lines, tasks), tasks, strict=True)}, **means}
    found = [by_seed(lines, sparsity, mine) for mine in columns.values()]
    shown = [_column({name: each.get(name, []) for name in names}, seeds) for each in found]
    rows = [[name, *[column[name] for column in shown], bytes_kept(name, lines), _step(name)] for name in names]
    return table(["", *columns, "bytes a weight", "ms a step"], rows)


def begun(lines: list[Line], tasks: Sequence[str]) -> list[str]:
    return [task for task in tasks if any(line["cell"]["task"] == task for line in lines)]


def _not_begun(lines: list[Line], tasks: Sequence[str]) -> str:
    """A mean over the others is a mean still, and says more than none."""
    left = [LABELS[task] for task in tasks if task not in begun(lines, tasks)]
    return f"Means are without {', '.join(left)}, of which none has." if lines and left else ""


Scores = dict[str, list[float]]


def by_seed(lines: list[Line], sparsity: float, tasks: list[str]) -> Scores:
    """Of each method the mean over these tasks, for every seed that has all of them."""
    return {name: list(each.values()) for name, each in of_seeds(lines, sparsity, tasks).items()}


def of_seeds(lines: list[Line], sparsity: float, tasks: list[str]) -> dict[str, dict[int, float]]:
    found: dict[tuple[str, int], dict[str, float]] = {}
    for line in lines:
        cell = line["cell"]
        if cell["task"] in tasks and sparsity_of(cell) in (0.0, sparsity):
            found.setdefault((cell["name"], cell["seed"]), {})[cell["task"]] = score_of(line)
    scores: dict[str, dict[int, float]] = {}
    for (name, seed), each in found.items():
        if len(each) == len(tasks):
            scores.setdefault(name, {})[seed] = statistics.fmean(each.values())
    return scores


def _column(scores: Scores, seeds: int) -> dict[str, str]:
    """In bold the best that is pruned and has no teacher, but not while a rival lacks some of its seeds."""
    rivals = {name: values for name, values in scores.items() if values and _competes(name)}
    is_whole = all(len(values) == seeds for values in rivals.values())
    means = {name: round(statistics.fmean(values), 3) for name, values in rivals.items() if is_whole}
    top = max(means.values(), default=None)
    shown = {name: spread(values, seeds) for name, values in scores.items()}
    return {name: f"**{text}**" if name in means and means[name] == top else text for name, text in shown.items()}


def _competes(name: str) -> bool:
    return name != "dense" and name not in grid.TAUGHT


def bytes_kept(name: str, lines: list[Line]) -> str:
    mine = [line for line in lines if line["cell"]["name"] == name]
    kept = [line.get("memory", 0) / PRUNABLE[line["cell"]["model"]] for line in mine]
    return f"{max(kept):.3g}" if kept else ""


def _step(name: str) -> str:
    """What the device takes for a step of BERT-base, with mgpp.AdamW where that was measured."""
    measured = {row["name"]: row.get("device_ms") for entry in reversed(_newest()) for row in entry["rows"]}
    side = _side(name)
    found = measured.get(f"{side}, mgpp.AdamW", measured.get(side))
    return "" if found is None else f"{found:.1f}"


def _side(name: str) -> str | None:
    """What the benchmark calls a method with these settings; it has none with a teacher."""
    if name == "dense":
        return "plain"
    if name == studies.FASTER:  # what mgpp.recommended() does
        return "recommended"
    method = grid.METHODS[name][0] if name in grid.METHODS else grid.DEAR.get(name)
    if method is None:
        return None
    parts = {"curvature": method.get("score") == "curvature", "decoupled": method.get("decoupled", False)}
    return " ".join([method["method"], *[part for part, has in parts.items() if has]])


def _newest() -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8"))[-1] for path in STEPS]


def _step_made_by() -> str:
    return "ms a step: " + " And of what it does not name: ".join(
        made_by(each["command"], [each]) for each in _newest()
    )
