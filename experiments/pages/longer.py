"""Methods by magnitude and by gradients in runs of the usual length and in longer ones."""

from experiments.glue import grid, studies
from experiments.pages.cells import LABELS, lines_of, planned_among
from experiments.pages.study import study


def longer(model: str) -> str:
    cells = studies.longer(model)
    usual = [{**cell, "epochs": grid.EPOCHS[studies.LONGER_ON]} for cell in cells]
    columns = [(cell["epochs"], cell["lr"]) for cell in (*usual, *cells)]
    columns = list(dict.fromkeys(columns))
    return study(
        model,
        "longer",
        [*usual, *cells],
        head=[
            f"{LABELS[studies.LONGER_ON]}, {grid.CHOOSE_AT:.0%}",
            *[f"{epochs} epochs, {rate:g}" for epochs, rate in columns],
        ],
        row_of=lambda cell: (cell["name"],),
        columns=columns,
        column_of=lambda cell: (cell["epochs"], cell["lr"]),
        beside=planned_among(lines_of(model, "choose"), usual),
    )
