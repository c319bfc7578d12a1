"""What has come back of some cells; and a study's cells as one table: a row for every setting, a column for what else
was turned."""

from collections.abc import Callable, Sequence
from typing import Any

from experiments.pages.cells import Cell, Line, command_of, key_of, lines_of, planned_among, score_of
from experiments.pages.text import joined, made_by, points, progress, table


def so_far(model: str, what: str, cells: list[Cell], show: Callable[[list[Line]], Sequence[str]]) -> str:
    """What `show` makes of the lines of these cells, what they were made by, and how many there are not yet."""
    lines = planned_among(lines_of(model, what), cells)
    missing = progress(len(lines), len(cells))
    return joined(missing, *show(lines), made_by(command_of(model, what), lines)) if lines else missing


def study(
    model: str,
    what: str,
    cells: list[Cell],
    *,
    head: list[str],
    row_of: Callable[[Cell], tuple[str, ...]],
    columns: list[Any],
    column_of: Callable[[Cell], Any],
    beside: Sequence[Line] = (),
) -> str:
    """A row for all cells that `row_of` says the same of, in their order, if anything of it was run. The lines of
    `beside` come from elsewhere."""
    found = planned_among(lines_of(model, what), cells)
    missing = progress(len(found) + len(beside), len(cells))
    if not found:
        return missing
    scores = {key_of(line["cell"]): score_of(line) for line in (*found, *beside)}
    groups: dict[tuple[str, ...], dict[Any, float]] = {}
    for cell in cells:
        if key_of(cell) in scores:
            groups.setdefault(row_of(cell), {})[column_of(cell)] = scores[key_of(cell)]
    rows = [[*told, *[points(each.get(column)) for column in columns]] for told, each in groups.items()]
    return joined(missing, table(head, rows), made_by(command_of(model, what), found))
