"""What other tasks and models say, in short, for the README: one line each, under the names that a user gives."""

from collections.abc import Callable
from typing import Any

from experiments.glue import grid
from experiments.pages.glue import Scores, by_seed, lines_in_table, lines_of_faster
from experiments.pages.single import FORMS, read_all
from experiments.pages.summary import BRIEF
from experiments.pages.text import Rows, spread, table

Result = dict[str, Any]


def beyond() -> str:
    found = {
        "MNLI, QNLI and QQP (parts), mean; MiniLM, 90%": _of_cells("minilm", "table2", 0.9),
        "SST-2, accuracy; MPNet-base, 90%": _of_cells("mpnet-base", "fifth", 0.9),
        **{f"SQuAD (a part), F1; MiniLM, {at:.0%}": _of_runs("squad", at, _score("f1")) for at in (0.8, 0.9, 0.95)},
        "CNN/DailyMail, ROUGE-1; flan-T5-small, 50%": _of_runs("cnn_dailymail", 0.5, _score("rouge1")),
        "WikiText-2, perplexity (lower is better); SmolLM2-135M, 50%": _of_runs(
            "decoder", 0.5, lambda result: result["after"]["perplexity"] / 100
        ),
    }
    names = [name for name in BRIEF if any(name in each for each in found.values())]
    rows: Rows = [[told, *[spread(each.get(name, []), 0) for name in names]] for told, each in found.items()]
    return table(["", *[BRIEF[name] for name in names]], rows)


def _of_cells(model: str, which: str, sparsity: float) -> Scores:
    lines = [*lines_in_table(model, which), *lines_of_faster(model, which)]
    return by_seed(lines, sparsity, list(grid.planned(model, which).tasks))


def _score(name: str) -> Callable[[Result], float]:
    return lambda result: result["after"][name]


def _of_runs(experiment: str, sparsity: float, score: Callable[[Result], float]) -> Scores:
    found: Scores = {}
    for form, result in read_all(experiment):
        if result["target_sparsity"] in (0.0, sparsity):
            found.setdefault(FORMS[form], []).append(score(result))
    return found
