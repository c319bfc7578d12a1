"""Candidates that were best at the highest of their rates, at a higher one."""

import statistics

from experiments.glue import grid, studies
from experiments.pages.cells import Cell, Line, key_of, lines_of, score_of
from experiments.pages.choosing import own_settings
from experiments.pages.study import so_far
from experiments.pages.text import points, table


def higher(model: str) -> str:
    return so_far(model, "higher", studies.higher(model), lambda lines: [_by_rate(model, lines)])


def _by_rate(model: str, lines: list[Line]) -> str:
    """The mean over the tasks that settings are chosen on."""
    cells = studies.higher(model)
    scores = {key_of(line["cell"]): score_of(line) for line in (*lines_of(model, "choose"), *lines)}
    rates = [*grid.RATES[model], studies.higher_rate(model)]
    rows = [
        [cell["name"], own_settings(cell, cells), *[_mean({**cell, "lr": rate}, scores) for rate in rates]]
        for cell in cells
        if cell["task"] == grid.CHOOSE_ON[0]
    ]
    return table(["", "its own settings", *[f"{rate:g}" for rate in rates]], rows)


def _mean(cell: Cell, scores: dict[str, float]) -> str:
    """Nothing where one of the tasks has not been run."""
    of_tasks = [key_of({**cell, "task": task, "epochs": grid.EPOCHS[task]}) for task in grid.CHOOSE_ON]
    found = [scores[key] for key in of_tasks if key in scores]
    return points(statistics.fmean(found) if len(found) == len(of_tasks) else None)
