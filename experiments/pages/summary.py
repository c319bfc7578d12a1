"""Table 1 in short, for the README: means over its tasks, and the paper's over the same tasks."""

import statistics
import tomllib
from collections.abc import Sequence

from experiments.glue import grid
from experiments.pages.cells import command_of
from experiments.pages.glue import by_seed, bytes_kept, lines_in_table, lines_of_faster, rows_of_table
from experiments.pages.paper import OURS, PAPER
from experiments.pages.text import Rows, joined, made_by, progress, spread, table

THEIRS = "DeBERTaV3-base"  # the paper's model with all of the tasks
THEIR_SPARSITY = 0.9


def summary(model: str) -> str:
    planned, faster = grid.planned(model), lines_of_faster(model)
    lines = [*lines_in_table(model), *faster]
    means = [by_seed(lines, sparsity, list(planned.tasks)) for sparsity in planned.sparsities]
    reported = _reported(planned.tasks)
    rows: Rows = [
        [
            name,
            *[spread(mean.get(name, []), len(planned.seeds)) for mean in means],
            bytes_kept(name, lines),
            reported.get(name, ""),
        ]
        for name in rows_of_table(model, "table", faster)
        if any(name in mean for mean in means)
    ]
    whole = len(planned.seeds) * len(planned.tasks) * (1 + (len(rows) - 1) * len(planned.sparsities))
    shown = [line for line in lines if line["cell"]["name"] in {row[0] for row in rows}]
    what = "{table,faster}" if faster else "table"
    head = ["", *[f"{sparsity:.0%}" for sparsity in planned.sparsities], "bytes a weight"]
    head += [f"the paper, {THEIRS}, {THEIR_SPARSITY:.0%}"]
    return joined(progress(len(shown), whole), table(head, rows), made_by(command_of(model, what), shown))


def _reported(tasks: Sequence[str]) -> dict[str, str]:
    """By grid.py's names: the paper's mean over the tasks, of methods that have a number on every one; of a pair the
    first, which is the one that is shown here too."""
    found = {}
    for row in tomllib.loads(PAPER.read_text(encoding="utf-8"))["row"]:
        told = [row.get(task, "N.A.").partition("/")[0] for task in tasks]
        if row["model"] == THEIRS and row["sparsity"] in (0.0, THEIR_SPARSITY) and "N.A." not in told:
            found[OURS.get(row["method"], row["method"])] = f"{statistics.fmean(map(float, told)):.1f}"
    return found
