"""Rows of Table 1, and beside them the same run again with one thing changed."""

from collections.abc import Callable

from experiments.glue import grid, studies
from experiments.pages.cells import Cell, Line, named, told_tasks
from experiments.pages.glue import lines_in_table, of_seeds
from experiments.pages.seeds import FAMILY, RIVAL, apart
from experiments.pages.study import so_far
from experiments.pages.text import Rows, spread, table

AGAIN = ", again"


def calmer(model: str) -> str:
    """Those that chose another rate than the middle one, at that."""
    return _made(model, "calmer", studies.calmer(model), "learning rate", lambda cell: f"{cell['lr']:g}")


def smoother(model: str) -> str:
    def told(cell: Cell) -> str:
        every = cell["method"].get("every")
        return "step" if every == 1 else f"{every or 10} steps"  # the default of a ramp is 10

    return _made(model, "smoother", studies.smoother(model), "an event every", told)


def _made(model: str, what: str, cells: list[Cell], changed: str, told: Callable[[Cell], str]) -> str:
    return so_far(model, what, cells, lambda lines: [_beside(model, lines, changed, told)])


def _beside(model: str, again: list[Line], changed: str, told: Callable[[Cell], str]) -> str:
    """The differences are to the rival with the same change."""
    planned = grid.planned(model)
    lines = [line for line in (*lines_in_table(model), *lines_in_table(model, "seeds")) if line["cell"]["method"]]
    lines += [named(line, line["cell"]["name"] + AGAIN) for line in again]
    seeds = len(planned.seeds) + len(grid.planned(model, "seeds").seeds)
    parts = [*[[task] for task in planned.tasks], list(planned.tasks)]
    changed_to = {line["cell"]["name"]: told(line["cell"]) for line in lines}
    rows: Rows = []
    for sparsity in grid.planned(model, "seeds").sparsities:
        found = [of_seeds(lines, sparsity, part) for part in parts]
        for name in (RIVAL, *FAMILY):
            for row in (name, name + AGAIN):
                scores = [list(each.get(row, {}).values()) for each in found]
                shown = [spread(values, seeds) for values in scores]
                if any(scores):
                    to_rival = apart(row, found[-1], RIVAL + AGAIN)
                    rows.append([name, f"{sparsity:.0%}", changed_to[row], *shown, to_rival])
    head = ["", "sparsity", changed, *told_tasks(again, list(planned.tasks)), "mean", f"to {RIVAL}, changed too"]
    return table(head, rows)
