"""The family and its strongest rival with more seeds than Table 1 has, and how far they are apart."""

import statistics

from experiments.glue import grid
from experiments.pages.cells import Line, command_of, in_table, told_tasks
from experiments.pages.glue import lines_in_table, of_seeds
from experiments.pages.text import joined, made_by, progress, spread, table

RIVAL = "PLATON"
WHAT = "seeds"


def seeds(model: str) -> str:
    planned = grid.planned(model, WHAT)
    more = lines_in_table(model, WHAT)
    missing = progress(len(more), planned.size)
    if not more:
        return missing
    lines = [line for line in lines_in_table(model) if line["cell"]["name"] in in_table(model, WHAT)] + more
    tables = [part for sparsity in planned.sparsities for part in (f"{sparsity:.0%}:", _at(sparsity, model, lines))]
    return joined(missing, *tables, made_by(command_of(model, WHAT), more))


def _at(sparsity: float, model: str, lines: list[Line]) -> str:
    tasks, names = list(grid.planned(model, WHAT).tasks), in_table(model, WHAT)
    whole = len(grid.planned(model).seeds) + len(grid.planned(model, WHAT).seeds)
    found = [of_seeds(lines, sparsity, mine) for mine in [*[[task] for task in tasks], tasks]]
    rows = [
        [name, *[spread(list(each.get(name, {}).values()), whole) for each in found], _apart(name, found[-1])]
        for name in names
    ]
    return table(["", *told_tasks(lines, tasks), "mean", f"to {RIVAL}"], rows)


def _apart(name: str, means: dict[str, dict[int, float]]) -> str:
    """The mean of the differences seed by seed, and its standard error."""
    mine, rival = means.get(name, {}), means.get(RIVAL, {})
    pairs = [100 * (mine[seed] - rival[seed]) for seed in sorted(mine.keys() & rival.keys())]
    if name == RIVAL or len(pairs) < 2:
        return ""
    return f"{statistics.fmean(pairs):+.1f} ± {statistics.stdev(pairs) / len(pairs) ** 0.5:.1f}"
