"""Candidates that were best at the highest of their rates, at a higher one."""

import statistics

from experiments.glue import grid, studies
from experiments.pages.cells import Cell, command_of, key_of, lines_of, planned_among, score_of
from experiments.pages.choosing import own_settings
from experiments.pages.text import joined, made_by, points, progress, table


def higher(model: str) -> str:
    """The mean over the tasks that settings are chosen on, by rate."""
    cells = studies.higher(model)
    lines = planned_among(lines_of(model, "higher"), cells)
    missing = progress(len(lines), len(cells))
    if not lines:
        return missing
    scores = {key_of(line["cell"]): score_of(line) for line in (*lines_of(model, "choose"), *lines)}
    rates = [*grid.RATES[model], studies.higher_rate(model)]
    rows = [
        [cell["name"], own_settings(cell, cells), *[_mean({**cell, "lr": rate}, scores) for rate in rates]]
        for cell in cells
        if cell["task"] == grid.CHOOSE_ON[0]
    ]
    head = ["", "its own settings", *[f"{rate:g}" for rate in rates]]
    return joined(missing, table(head, rows), made_by(command_of(model, "higher"), lines))


def _mean(cell: Cell, scores: dict[str, float]) -> str:
    """Nothing where one of the tasks has not been run."""
    of_tasks = [key_of({**cell, "task": task, "epochs": grid.EPOCHS[task]}) for task in grid.CHOOSE_ON]
    found = [scores[key] for key in of_tasks if key in scores]
    return points(statistics.fmean(found) if len(found) == len(of_tasks) else None)
