"""One thing changed at a time, on the held-out rows: the ablations, and a setting over its values."""

import statistics
from typing import Any

from experiments.glue import grid
from experiments.pages.cells import (
    Cell,
    Line,
    command_of,
    key_of,
    lines_of,
    planned_among,
    score_of,
    told_tasks,
)
from experiments.pages.text import Rows, joined, made_by, points, progress, table

TASKS = list(grid.CHOOSE_ON)
WITH_PRIOR, WITHOUT_PRIOR = "MGPP curvature", "curvature, no prior"
# What a sweep turns one setting of.
REFERENCES = {
    "curvature": {**grid.FREE, "strength": 0.01},
    "paper": {"method": "mgpp", **grid.PAPER, "strength": 1.0},
}
_RUN = ("name", "model", "task", "method", "epochs", "seed", "held_out")  # of a cell, what is no setting
Scores = dict[str, float]


def ablations(model: str) -> str:
    """What was tried, each beside the cell that is the same but for it."""
    planned = grid.candidates(model)
    middle = grid.RATES[model][1]
    tried = [cell for cell in planned if cell["name"] in grid.TRIED or cell["name"] == WITHOUT_PRIOR]
    tried = _first_of_each([cell for cell in tried if cell["lr"] == middle])
    pairs = [(cell, reference_of(cell, planned)) for cell in tried]
    lines = lines_of(model, "choose")
    scores = _scores(lines)
    cells = [each for pair in pairs for cell in pair for each in _on_all_tasks(cell, planned)]
    run = planned_among(lines, cells)
    missing = progress(len(run), len({key_of(cell) for cell in cells}))
    if not run:
        return missing
    rows = []
    for reference in _first_of_each([reference for _, reference in pairs]):
        rows += _beside(reference, [cell for cell, other in pairs if other["name"] == reference["name"]], scores)
    head = ["", *told_tasks(run, TASKS), "mean", "difference"]
    return joined(missing, table(head, rows), made_by(command_of(model, "choose"), run))


def _beside(reference: Cell, tried: list[Cell], scores: dict[str, Scores]) -> Rows:
    """The reference and those of its variations that have been run; the last number is the means' difference."""
    known = scores.get(_settings_key(reference), {})
    run = {cell["name"]: scores[_settings_key(cell)] for cell in tried if _settings_key(cell) in scores}
    rows = [[name, *_told(mine), _difference(mine, known)] for name, mine in run.items()]
    return [[f"**{reference['name']}**", *_told(known), ""], *rows] if rows else []


def reference_of(cell: Cell, planned: list[Cell]) -> Cell:
    """A method's candidate at the same learning rate; of these, the first of those that share most settings."""
    among = [other for other in planned if other["name"] in grid.METHODS and other["lr"] == cell["lr"]]
    if cell["name"] == WITHOUT_PRIOR:
        among = [other for other in among if other["name"] == WITH_PRIOR]
    elif cell["method"].get("strength") == 0.0:
        among = [other for other in among if other["name"] == WITHOUT_PRIOR]
    elif cell["method"]["method"] == "mgpp":
        among = [other for other in among if other["name"] == WITH_PRIOR]
    return max(among, key=lambda other: len(cell["method"].items() & other["method"].items()))


def sweep(model: str, setting: str, reference: str = "curvature") -> str:
    """One setting of MGPP over all its values, the others as in the reference at the middle learning rate."""
    others = {**grid.RAMP, **REFERENCES[reference], "sparsity": grid.CHOOSE_AT, "lr": grid.RATES[model][1]}
    others.pop(setting, None)

    def belongs(cell: Cell) -> bool:
        return {key: value for key, value in _settings(cell).items() if key != setting} == others

    planned = [cell for cell in grid.candidates(model) if belongs(cell)]
    lines = [line for line in lines_of(model, "choose") if belongs(line["cell"])]
    missing = progress(len(planned_among(lines, planned)), len(planned))
    found: dict[float, Scores] = {}
    for line in lines:
        settings = _settings(line["cell"])
        value = settings[setting] if setting in settings else _default(setting)
        found.setdefault(value, {})[line["cell"]["task"]] = score_of(line)
    rows = [[f"`{setting}={value:g}`", *_told(found[value])] for value in sorted(found)]
    head = ["", *told_tasks(lines, TASKS), "mean"]
    return joined(missing, table(head, rows) if rows else "", made_by(command_of(model, "choose"), lines))


def _default(setting: str) -> float:
    from mgpp import MGPP

    return getattr(MGPP, setting)


def _settings(cell: Cell) -> dict[str, Any]:
    return {**(cell["method"] or {}), **{key: value for key, value in cell.items() if key not in _RUN}}


def _settings_key(cell: Cell) -> str:
    return key_of(_settings(cell))


def _scores(lines: list[Line]) -> dict[str, Scores]:
    """By their settings. Where these were run under two names, the first counts."""
    found: dict[str, Scores] = {}
    for line in lines:
        found.setdefault(_settings_key(line["cell"]), {}).setdefault(line["cell"]["task"], score_of(line))
    return found


def _first_of_each(cells: list[Cell]) -> list[Cell]:
    return list({cell["name"]: cell for cell in reversed(cells)}.values())[::-1]


def _on_all_tasks(cell: Cell, planned: list[Cell]) -> list[Cell]:
    return [other for other in planned if _settings_key(other) == _settings_key(cell) and other["name"] == cell["name"]]


def _told(scores: Scores) -> list[str]:
    return [*[points(scores.get(task)) for task in TASKS], points(_mean(scores))]


def _mean(scores: Scores) -> float | None:
    return statistics.fmean(scores[task] for task in TASKS) if set(TASKS) <= set(scores) else None


def _difference(scores: Scores, reference: Scores) -> str:
    mine, theirs = _mean(scores), _mean(reference)
    return "" if mine is None or theirs is None else f"{100 * (mine - theirs):+.1f}"
