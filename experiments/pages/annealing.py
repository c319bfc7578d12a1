"""Prior annealing with its settings turned, the gradients it stands against, and the paper's MGPP not clipped."""

from typing import Any

from experiments.glue import grid, studies
from experiments.pages.cells import LABELS, Cell, Line, command_of, key_of, lines_of, planned_among, score_of
from experiments.pages.text import Rows, joined, made_by, points, progress, table

CLIPPED = {False: "at 1", True: "no"}


def annealing(model: str) -> str:
    """A row for every setting; a column for every task and length."""
    cells = studies.annealing(model)
    found = planned_among(lines_of(model, "annealing"), cells)
    missing = progress(len(found), len(cells))
    if not found:
        return missing
    columns = [(task, epochs) for task in studies.ANNEALED_ON for epochs in (studies.SHORT, studies.LONG)]
    rows = _rows(sorted(cells, key=_order), found, columns, _setting, lambda cell: (cell["task"], cell["epochs"]))
    heads = [f"{LABELS[task]}, {epochs} epochs" for task, epochs in columns]
    head = ["", "sparsity", "learning rate", "clipped", *heads]
    return joined(missing, table(head, rows), made_by(command_of(model, "annealing"), found))


def _order(cell: Cell) -> tuple[Any, ...]:
    """The widest spike first and no prior last, so that each learning rate stands beside the other."""
    method = cell["method"]
    widest, weak = -method.get("spike_var_start", 0), "strength" in method
    return widest, weak, method["sparsity"], method["start"] != 1, "clip" in cell, cell["lr"]


def _setting(cell: Cell) -> tuple[str, ...]:
    method = cell["method"]
    if method["method"] == "gmp":
        what = "no prior, cut at once " + ("before training" if method["start"] == 1 else "where PA does")
    else:
        what = f"PA, σ0² {method['spike_var_start']:g} to {method['spike_var_end']:g}"
        what += f", strength {method['strength']:g}" if "strength" in method else ""
    return what, f"{method['sparsity']:.0%}", f"{cell['lr']:g}", CLIPPED["clip" in cell]


def clipping(model: str) -> str:
    """Each candidate of Table 1, and under it the same with nothing clipped."""
    cells = studies.clipping(model)
    found = planned_among(lines_of(model, "clipping"), cells)
    missing = progress(len(found), len(cells))
    if not found:
        return missing
    clipped = [{**cell, "name": "MGPP (paper)"} for cell in cells]
    for cell in clipped:
        del cell["clip"]
    beside = planned_among(lines_of(model, "choose"), clipped)
    both = sorted([*cells, *clipped], key=lambda cell: (cell["method"]["strength"], cell["lr"], "clip" in cell))
    columns = [(task,) for task in grid.CHOOSE_ON]
    rows = _rows(both, [*found, *beside], columns, _candidate, lambda cell: (cell["task"],))
    head = ["strength", "learning rate", "clipped", *[LABELS[task] for task in grid.CHOOSE_ON]]
    return joined(missing, table(head, rows), made_by(command_of(model, "clipping"), found))


def _candidate(cell: Cell) -> tuple[str, ...]:
    return f"{cell['method']['strength']:g}", f"{cell['lr']:g}", CLIPPED["clip" in cell]


def _rows(cells: list[Cell], lines: list[Line], columns: list[Any], row_of: Any, column_of: Any) -> Rows:
    """In the cells' order, those settings of which anything was run."""
    scores = {key_of(line["cell"]): score_of(line) for line in lines}
    groups: dict[tuple[str, ...], dict[Any, float]] = {}
    for cell in cells:
        if key_of(cell) in scores:
            groups.setdefault(row_of(cell), {})[column_of(cell)] = scores[key_of(cell)]
    return [[*told, *[points(found.get(column)) for column in columns]] for told, found in groups.items()]


def gradients(model: str) -> str:
    """Of experiments/lab/gradients.py."""
    lines = lines_of(model, "gradients")
    if not lines:
        return progress(0, 1)
    rows = [
        [
            LABELS[line["cell"]["task"]],
            f"{line['train_rows']:,}",
            *[f"{line[part]['norm']:.2g}" for part in ("first", "last")],
            *[f"{line[part]['a_weight']:.1e}" for part in ("first", "last")],
        ]
        for line in lines
    ]
    head = ["", "train rows", "norm, steps 1 to 20", "norm, 41 to 60", "a weight, 1 to 20", "a weight, 41 to 60"]
    command = f"python experiments/lab/gradients.py experiments/glue/results/{model}-gradients.jsonl"
    return joined(table(head, rows), made_by(f"{command} --models DIR --features DIR", lines))
