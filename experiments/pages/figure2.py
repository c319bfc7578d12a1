"""The paper's Fig. 2 on a page: drawn by glue/figure.py, with where the cut ended."""

from experiments.glue import grid
from experiments.pages.cells import LABELS, Line, command_of, lines_of, score_of
from experiments.pages.text import joined, made_by, points, progress, table


def figure2(model: str) -> str:
    newest = {line["cell"]["name"]: line for line in lines_of(model, "figure")}
    lines = list(newest.values())
    missing = progress(len(lines), len(grid.FIGURED))
    if not lines:
        return missing
    cell = lines[0]["cell"]
    shown = f"![Remaining weights, and the cut during training, on {LABELS[cell['task']]}](../figures/fig2-{model}.svg)"
    head = ["", "learning rate", "last cut", "half-width of the spike", f"{LABELS[cell['task']]}, {lines[0]['metric']}"]
    rows = table(head, [_row(line) for line in lines])
    return joined(missing, shown, rows, made_by(command_of(model, "figure"), lines))


def _row(line: Line) -> list[str]:
    cell, last = line["cell"], line["last"]
    by_size = cell["method"].get("score", "magnitude") == "magnitude"
    cut = f"{last['cut']:.2g}" if by_size else "of another score"
    width = f"{last['half_width']:.2g}" if "half_width" in last else ""
    return [cell["name"], f"{cell['lr']:g}", cut, width, points(score_of(line))]
