"""Prior annealing with its settings turned, the gradients it stands against, and the paper's MGPP not clipped."""

from typing import Any

from experiments.glue import grid, studies
from experiments.pages.cells import LABELS, Cell, lines_of, planned_among
from experiments.pages.study import study
from experiments.pages.text import joined, made_by, progress, table

CLIPPED = {False: "at 1", True: "no"}


def annealing(model: str) -> str:
    """A row for every setting; a column for every task and length."""
    columns = [(task, epochs) for task in studies.ANNEALED_ON for epochs in (studies.SHORT, studies.LONG)]
    heads = [f"{LABELS[task]}, {epochs} epochs" for task, epochs in columns]
    return study(
        model,
        "annealing",
        sorted(studies.annealing(model), key=_order),
        head=["", "sparsity", "learning rate", "clipped", *heads],
        row_of=_setting,
        columns=columns,
        column_of=lambda cell: (cell["task"], cell["epochs"]),
    )


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
    clipped = [{key: value for key, value in cell.items() if key != "clip"} for cell in cells]
    beside = [{**cell, "name": "MGPP (paper)"} for cell in clipped]
    both = sorted([*cells, *beside], key=lambda cell: (cell["method"]["strength"], cell["lr"], "clip" in cell))
    return study(
        model,
        "clipping",
        both,
        head=["strength", "learning rate", "clipped", *[LABELS[task] for task in grid.CHOOSE_ON]],
        row_of=_candidate,
        columns=list(grid.CHOOSE_ON),
        column_of=lambda cell: cell["task"],
        beside=planned_among(lines_of(model, "choose"), beside),
    )


def _candidate(cell: Cell) -> tuple[str, ...]:
    return f"{cell['method']['strength']:g}", f"{cell['lr']:g}", CLIPPED["clip" in cell]


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
