"""Variations on the recommended form, with several seeds, on train rows that were held out."""

import statistics

from experiments.glue import grid
from experiments.pages.cells import Line, told_tasks
from experiments.pages.glue import Scores, by_seed
from experiments.pages.study import so_far
from experiments.pages.text import spread, table

REFERENCE = "MGPP recommended"
SPARSITIES = (0.9, 0.95)


def varied(model: str) -> str:
    def tables(lines: list[Line]) -> list[str]:
        return [part for sparsity in SPARSITIES for part in (f"{sparsity:.0%}:", _at(sparsity, lines))]

    return so_far(model, "vary", grid.varied(model), tables)


def _at(sparsity: float, lines: list[Line]) -> str:
    tasks, seeds = list(grid.CHOOSE_ON), len(grid.VARIED_SEEDS)
    columns = [by_seed(lines, sparsity, [task]) for task in tasks]
    means = by_seed(lines, sparsity, tasks)
    names = [name for name in grid.VARIED if any(name in column for column in columns)]
    rows = [
        [name, *[spread(column.get(name, []), seeds) for column in [*columns, means]], _difference(name, means)]
        for name in names
    ]
    return table(["", *told_tasks(lines, tasks), "mean", "difference"], rows)


def _difference(name: str, means: Scores) -> str:
    if name == REFERENCE or not {name, REFERENCE} <= means.keys():
        return ""
    return f"{100 * (statistics.fmean(means[name]) - statistics.fmean(means[REFERENCE])):+.1f}"
