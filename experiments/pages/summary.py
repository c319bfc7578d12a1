"""Table 1 in short, for the README: means over its tasks, and the paper's over the same tasks."""

import statistics
import tomllib
from collections.abc import Sequence

from experiments.glue import grid, studies
from experiments.pages.cells import command_of
from experiments.pages.glue import FASTER, by_seed, bytes_kept, lines_in_table, lines_of_faster, rows_of_table
from experiments.pages.paper import OURS, PAPER
from experiments.pages.text import Rows, joined, made_by, progress, spread, table

THEIRS = "DeBERTaV3-base"  # the paper's model with all of the tasks
THEIR_SPARSITY = 0.9

# The rows of the brief form, and what they are called there: the last is what `mgpp prune` does.
BRIEF = {name: name for name in ("dense", "GMP", "L2", "PA", "Movement", "SoftMovement", "ITP", "LoSparse", "oBERT")}
BRIEF |= {"PLATON": "PLATON", "PLATON" + FASTER: "PLATON, `lr_power=0.5`"}
BRIEF |= {"MGPP (paper)": "`mgpp.MGPP()`, the paper's", studies.FASTER: "**`mgpp.recommended()`**"}


def summary(model: str, form: str = "whole") -> str:
    planned, faster = grid.planned(model), lines_of_faster(model)
    lines = [*lines_in_table(model), *faster]
    called = BRIEF if form == "brief" else {name: name for name in rows_of_table(model, "table", faster)}
    means = [by_seed(lines, sparsity, list(planned.tasks)) for sparsity in planned.sparsities]
    reported = _reported(planned.tasks)
    rows: Rows = [
        [
            told,
            *[spread(mean.get(name, []), len(planned.seeds)) for mean in means],
            bytes_kept(name, lines),
            reported.get(name, ""),
        ]
        for name, told in called.items()
        if any(name in mean for mean in means)
    ]
    whole = len(planned.seeds) * len(planned.tasks) * (1 + (len(rows) - 1) * len(planned.sparsities))
    in_rows = {row[0] for row in rows}
    shown = [line for line in lines if called.get(line["cell"]["name"]) in in_rows]
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
