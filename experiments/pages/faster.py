"""Rows of Table 1 with a learning rate that follows the share of weights left, and how its power was chosen."""

import statistics
from collections.abc import Sequence

from experiments.glue import grid, studies
from experiments.pages.cells import Cell, Line, command_of, key_of, lines_of, named, planned_among, score_of, told_tasks
from experiments.pages.glue import FASTER, lines_in_table, of_seeds
from experiments.pages.seeds import FAMILY, RIVAL, apart
from experiments.pages.study import so_far
from experiments.pages.summary import BRIEF
from experiments.pages.text import Rows, joined, made_by, points, progress, spread, table

WHAT = "faster"


def following(model: str) -> str:
    return so_far(model, "following", studies.following(model), lambda lines: [_by_power(model, lines)])


def _by_power(model: str, lines: list[Line]) -> str:
    """The mean over the tasks that settings are chosen on; without a power as the candidates and variations had it."""
    scores = {_unnamed(line["cell"]): score_of(line) for what in ("choose", "vary") for line in lines_of(model, what)}
    scores |= {_unnamed(line["cell"]): score_of(line) for line in lines}
    cells = studies.following(model)
    powers = [None, *dict.fromkeys(cell["follow"] for cell in cells)]
    seeds = sorted({cell["seed"] for cell in cells})
    kinds = dict.fromkeys((cell["name"], cell["method"]["sparsity"], cell["lr"]) for cell in cells)
    rows: Rows = []
    for name, sparsity, rate in sorted(kinds, key=lambda kind: kind[1]):
        of_it = next(cell for cell in cells if (cell["name"], cell["lr"]) == (name, rate))
        method = {**of_it["method"], "sparsity": sparsity}
        each = [_means({**of_it, "method": method}, power, seeds, scores) for power in powers]
        shown = [spread(means, len(seeds)) if len(seeds) > 1 else points(*means or [None]) for means in each]
        rows.append([name, f"{sparsity:.0%}", f"{rate:g}", *shown])
    return table(["", "sparsity", "learning rate", *[f"lr_power {power or 0:g}" for power in powers]], rows)


def _means(cell: Cell, power: float | None, seeds: Sequence[int], scores: dict[str, float]) -> list[float]:
    """Over the tasks, of each seed that has all of them."""
    cell = {key: value for key, value in cell.items() if key != "follow"}
    own = {} if power is None else {"follow": power}
    found = [
        [scores.get(_unnamed({**cell, **own, "task": task, "epochs": grid.EPOCHS[task], "seed": seed}))
         for task in grid.CHOOSE_ON]
        for seed in seeds
    ]  # fmt: skip
    return [statistics.fmean(filter(None, each)) for each in found if None not in each]


def _unnamed(cell: Cell) -> str:
    """What is run: the score alone has another name among the variations."""
    return key_of({key: value for key, value in cell.items() if key != "name"})


def faster(model: str) -> str:
    return so_far(model, WHAT, studies.faster(model), lambda lines: [_by_task(model, lines)])


def _by_task(model: str, found: list[Line]) -> str:
    tasks = list(grid.planned(model).tasks)
    lines, seeds = _with_table(model, found), studies.FASTER_SEEDS[model]
    rate_of = {line["cell"]["name"]: f"{line['cell']['lr']:g}" for line in lines}
    rows: Rows = []
    for sparsity in grid.planned(model).sparsities:
        most = len(seeds if sparsity in grid.planned(model, "seeds").sparsities else grid.planned(model).seeds)
        each = [of_seeds(lines, sparsity, part) for part in [*[[task] for task in tasks], tasks]]
        for name in (RIVAL, *FAMILY):
            for row, power in ((name, 0), (name + FASTER, studies.LR_POWER)):
                shown = [spread(list(of.get(row, {}).values()), most) for of in each]
                beside = [apart(row, each[-1], rival) for rival in (RIVAL, RIVAL + FASTER)]
                rows.append([name, f"{sparsity:.0%}", f"{power:g}", rate_of.get(row, ""), *shown, *beside])
    head = ["", "sparsity", "lr_power", "learning rate", *told_tasks(found, tasks), "mean"]
    return table([*head, f"to {RIVAL}", f"to {RIVAL} with it"], rows)


def gained(which: str = "recommended") -> str:
    """In short, of the recommended form or of its score alone: a row for every model and sparsity. `brief` has the
    recommended form as it is now alone, under the README's names."""
    mine = {"score": "curvature, no prior"}.get(which, "MGPP recommended")
    names = ["dense", RIVAL, RIVAL + FASTER, mine, mine + FASTER]
    head = ["", "seeds", "sparsity", *names, f"faster to {RIVAL}", f"faster to {RIVAL + FASTER}"]
    if which == "brief":
        names.remove(mine)
        head = [
            "",
            "seeds",
            "sparsity",
            *[BRIEF[name] for name in names],
            "above PLATON",
            "above PLATON, `lr_power=0.5`",
        ]
    rows: Rows = []
    shown: list[Line] = []
    for model in studies.FASTER_SEEDS:
        found = planned_among(lines_of(model, WHAT), studies.faster(model))
        for sparsity in grid.planned(model, "seeds").sparsities if found else ():
            means = of_seeds(_with_table(model, found), sparsity, list(grid.planned(model).tasks))
            row = [model, str(len(means.get(RIVAL + FASTER, {}))), f"{sparsity:.0%}"]
            row += [points(statistics.fmean(means[name].values()) if name in means else None) for name in names]
            rows.append([*row, *[apart(mine + FASTER, means, rival) for rival in (RIVAL, RIVAL + FASTER)]])
        shown += found
    if not rows:
        return progress(0, sum(len(studies.faster(model)) for model in studies.FASTER_SEEDS))
    return joined(table(head, rows), made_by(command_of("MODEL", WHAT), shown))


def _with_table(model: str, found: list[Line]) -> list[Line]:
    """Those of Table 1 that have the same seeds, and these under names of their own."""
    lines = [*lines_in_table(model), *lines_in_table(model, "seeds")]
    kept = [line for line in lines if line["cell"]["seed"] in studies.FASTER_SEEDS[model]]
    return kept + [named(line, line["cell"]["name"] + FASTER) for line in found]
