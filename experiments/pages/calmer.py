"""Rows of Table 1, and beside them those that chose another rate than the middle one at that."""

from experiments.glue import grid, studies
from experiments.pages.cells import Line, lines_of, named, told_tasks
from experiments.pages.glue import lines_in_table, of_seeds
from experiments.pages.seeds import FAMILY, RIVAL, apart
from experiments.pages.study import so_far
from experiments.pages.text import Rows, spread, table

LOWER = " at the middle rate"


def calmer(model: str) -> str:
    return so_far(model, "calmer", studies.calmer(model), lambda lines: [_by_rate(model, lines)])


def _by_rate(model: str, lines: list[Line]) -> str:
    planned, rate = grid.planned(model), grid.RATES[model][1]
    chosen = grid.best(lines_of(model, "choose"))
    lower = [named(line, line["cell"]["name"] + LOWER) for line in lines]
    beside = [*lines_in_table(model), *lines_in_table(model, "seeds")]
    seeds = len(planned.seeds) + len(grid.planned(model, "seeds").seeds)
    parts = [*[[task] for task in planned.tasks], list(planned.tasks)]
    rows: Rows = []
    for sparsity in planned.sparsities:
        found = [of_seeds([*beside, *lower], sparsity, part) for part in parts]
        for name in (RIVAL, *FAMILY):
            for told, of in {name: chosen[name]["lr"], name + LOWER: rate}.items():
                scores = [list(each.get(told, {}).values()) for each in found]
                shown = [spread(values, seeds) for values in scores]
                if any(scores):
                    rows.append([name, f"{sparsity:.0%}", f"{of:g}", *shown, apart(told, found[-1], RIVAL + LOWER)])
    head = ["", "sparsity", "learning rate", *told_tasks(lines, list(planned.tasks)), "mean", f"to {RIVAL} at {rate:g}"]
    return table(head, rows)
