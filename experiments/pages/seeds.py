"""How far the family and one of its strongest rivals are apart, seed by seed: in short on all models, and on one of
them with more seeds than Table 1 has."""

import statistics

from experiments.glue import grid
from experiments.pages.cells import Line, command_of, in_table, told_tasks
from experiments.pages.glue import lines_in_table, of_seeds
from experiments.pages.text import Rows, joined, made_by, points, progress, spread, table

RIVAL = "PLATON"
FAMILY = ("curvature, no prior", "MGPP recommended")
WHAT = "seeds"
Means = dict[str, dict[int, float]]  # of a method, of a seed


def seeds(model: str) -> str:
    planned = grid.planned(model, WHAT)
    more = lines_in_table(model, WHAT)
    missing = progress(len(more), planned.size)
    if not more:
        return missing
    lines = _all(model)
    tables = [part for sparsity in planned.sparsities for part in (f"{sparsity:.0%}:", _at(sparsity, model, lines))]
    return joined(missing, *tables, made_by(command_of(model, WHAT), more))


def standing() -> str:
    """A row for every model and sparsity, of the seeds that all of its methods have."""
    rows: Rows = []
    lines: list[Line] = []
    for model in grid.RATES:
        for sparsity in grid.planned(model, WHAT).sparsities:
            means = _shared(of_seeds(_all(model), sparsity, list(grid.planned(model).tasks)))
            if means[RIVAL]:
                rows.append(_row(model, sparsity, means))
                lines += _all(model)
    if not rows:
        return progress(0, len(grid.RATES) * len(grid.TABLES[WHAT].sparsities))
    head = ["", "tasks", "seeds", "sparsity", "dense", RIVAL]
    head += [text for name in FAMILY for text in (name, f"to {RIVAL}")]
    return joined(table(head, rows), made_by(command_of("MODEL", f"{{table,{WHAT}}}"), lines))


def _shared(means: Means) -> Means:
    """Of seeds that one of them lacks, none has a mean: all are of the same."""
    of_them = {name: means.get(name, {}) for name in ("dense", RIVAL, *FAMILY)}
    seeds = sorted(set.intersection(*[set(each) for each in of_them.values()]))
    return {name: {seed: each[seed] for seed in seeds} for name, each in of_them.items()}


def _row(model: str, sparsity: float, means: Means) -> list[str]:
    shown = {name: points(statistics.fmean(each.values())) for name, each in means.items()}
    row = [model, str(len(grid.planned(model).tasks)), str(len(means[RIVAL])), f"{sparsity:.0%}"]
    row += [shown["dense"], shown[RIVAL]]
    return row + [text for name in FAMILY for text in (shown[name], apart(name, means))]


def _all(model: str) -> list[Line]:
    """Of these methods, in Table 1 and with more seeds."""
    lines = lines_in_table(model) + lines_in_table(model, WHAT)
    return [line for line in lines if line["cell"]["name"] in in_table(model, WHAT)]


def _at(sparsity: float, model: str, lines: list[Line]) -> str:
    tasks, names = list(grid.planned(model, WHAT).tasks), in_table(model, WHAT)
    whole = len(grid.planned(model).seeds) + len(grid.planned(model, WHAT).seeds)
    found = [of_seeds(lines, sparsity, mine) for mine in [*[[task] for task in tasks], tasks]]
    rows = [
        [name, *[spread(list(each.get(name, {}).values()), whole) for each in found], apart(name, found[-1])]
        for name in names
    ]
    return table(["", *told_tasks(lines, tasks), "mean", f"to {RIVAL}"], rows)


def apart(name: str, means: Means, rival: str = RIVAL) -> str:
    """The mean of the differences seed by seed, and its standard error."""
    mine, its = means.get(name, {}), means.get(rival, {})
    pairs = [100 * (mine[seed] - its[seed]) for seed in sorted(mine.keys() & its.keys())]
    if name == rival or len(pairs) < 2:
        return ""
    return f"{statistics.fmean(pairs):+.1f} ± {statistics.stdev(pairs) / len(pairs) ** 0.5:.1f}"
