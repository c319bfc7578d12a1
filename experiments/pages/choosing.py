"""How each method's settings were chosen: candidates, scored on train rows that were held out."""

from typing import Any

from experiments.glue import grid
from experiments.pages.cells import (
    LABELS,
    Cell,
    command_of,
    in_table,
    key_of,
    lines_of,
    planned_among,
    score_of,
)
from experiments.pages.text import joined, made_by, points, progress, table


def chosen(model: str) -> str:
    """Of each method the candidate that was taken, and how many there were."""
    lines = lines_of(model, "choose")
    cells = [cell for cell in grid.candidates(model) if cell["name"] in in_table(model)]
    run, best = planned_among(lines, cells), grid.best(lines)
    missing = progress(len(run), len(cells))
    rows = [_row(name, best[name], cells) for name in in_table(model) if name in best]
    if not rows:
        return missing
    head = ["", "learning rate", "its own settings", "held-out mean", "candidates"]
    return joined(missing, table(head, rows), made_by(command_of(model, "choose"), run))


def _row(name: str, told: dict[str, Any], cells: list[Cell]) -> list[str]:
    mine = [cell for cell in cells if cell["name"] == name]
    planned = len({key_of({**cell, "task": "", "epochs": 0}) for cell in mine})
    own = own_settings({"name": name, "method": told["method"]}, cells)
    of = str(planned) if told["of"] >= planned else f"{told['of']} of {planned} run"
    return [name, f"{told['lr']:g}", own, points(told["held_out"]), of]


def own_settings(cell: Cell, cells: list[Cell]) -> str:
    """Those in which the candidates of its method differ."""
    varied = _varied([other["method"] for other in cells if other["name"] == cell["name"]])
    return ", ".join(_shown(key, (cell["method"] or {}).get(key)) for key in varied)


def _varied(methods: list[dict[str, Any] | None]) -> list[str]:
    """The settings in which the candidates differ."""
    tables = [method or {} for method in methods]
    keys = dict.fromkeys(key for method in tables for key in method)
    return [key for key in keys if len({str(method.get(key)) for method in tables}) > 1]


def _shown(key: str, value: Any) -> str:
    if value is None:
        return f"{key} as by default"
    return f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"


def candidates(model: str, task: str) -> str:
    """Of each method on one task the best of its candidates, and its others."""
    lines = planned_among(lines_of(model, "choose"), grid.candidates(model))
    lines = [line for line in lines if line["cell"]["task"] == task and line["cell"]["name"] in in_table(model)]
    if not lines:
        return progress(0, len(in_table(model)))
    found: dict[str, list[tuple[float, str]]] = {name: [] for name in in_table(model)}
    for line in lines:
        cell = line["cell"]
        method = cell["method"] or {}
        varied = _varied([other["cell"]["method"] for other in lines if other["cell"]["name"] == cell["name"]])
        own = [_shown(key, method[key]) for key in varied if key in method]
        found[cell["name"]].append((score_of(line), ", ".join([f"lr {cell['lr']:g}", *own])))
    rows = [
        [name, f"{max(each)[0]:.3f}", max(each)[1], " ".join(f"{score:.3f}" for score, _ in sorted(each)[-2::-1])]
        for name, each in sorted(found.items(), key=lambda item: -max(item[1], default=(0.0, ""))[0])
        if each
    ]
    head = ["", f"best {lines[0]['metric']}", "with", "the other candidates"]
    return joined(table(head, rows), made_by(command_of(model, "choose"), lines))


def protocol(model: str) -> str:
    """What every method has in common: read from grid.py, not from results."""
    planned = grid.planned(model)
    rows = [[LABELS[task], str(grid.EPOCHS[task]), "yes" if task in grid.CHOOSE_ON else ""] for task in planned.tasks]
    told = {
        "learning rates": [f"{rate:g}" for rate in grid.RATES[model]],
        "sparsities": [f"{sparsity:.0%}" for sparsity in planned.sparsities],
        "seeds": [str(seed) for seed in planned.seeds],
        "ramp, as shares of the run": [f"{when} {share:g}" for when, share in grid.RAMP.items()],
    }
    facts = "; ".join(f"{name}: {', '.join(values)}" for name, values in told.items())
    return joined(table(["task", "epochs", "settings chosen on it"], rows), f"{facts}.")
