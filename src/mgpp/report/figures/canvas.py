"""Where figures are drawn and how they look: legible in print, in grey, and to those who see few colours."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")

# Okabe and Ito's colours, those first that differ in grey.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = "osD^v<>pP*"

STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.5,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,  # text stays text, and journals take it
    "svg.fonttype": "none",
    "svg.hashsalt": "mgpp",
}
KINDS = ("pdf", "svg", "png")


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Artists take their look from matplotlib's settings when they are made."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        with _matplotlib().rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawn


def axes_or_new(axes: "Axes | None", *, size: tuple[float, float] = (4.5, 3.0)) -> "Axes":
    return axes if axes is not None else panels_or_new(None, 1, size=size)[0]


def panels_or_new(
    axes: "Sequence[Axes] | None",
    count: int,
    *,
    size: tuple[float, float],
    columns: int | None = None,
    sharex: bool = False,
) -> "list[Axes]":
    """The axes given; else those of a figure that a notebook shows by itself."""
    if axes is not None:
        given = list(axes)
        if len(given) < count:
            raise ValueError(f"{len(given)} axes given: this figure has {count} panels")
        return given[:count]
    across = min(count, columns or count)
    down = -(-count // across)
    grid = _new_figure(figsize=size, layout="constrained").subplots(down, across, squeeze=False, sharex=sharex)
    for spare in grid.flat[count:]:
        spare.remove()
    return list(grid.flat[:count])


def _new_figure(**settings: Any) -> "Figure":
    """pyplot's where somebody looks at it, so that it is shown; else one that needs no screen and is not kept."""
    from matplotlib.figure import Figure

    if "IPython" not in sys.modules and "matplotlib.pyplot" not in sys.modules:
        return Figure(**settings)
    from matplotlib import pyplot

    return pyplot.figure(**settings)


def draw_line(panel: "Axes", steps: Sequence[float], values: Sequence[float], **look: Any) -> None:
    """As panel.plot; of one point, which a line cannot show, a dot."""
    (line,) = panel.plot(steps, values, **look)
    if len(steps) == 1:
        line.set(marker="o", markersize=3 + 2 * line.get_linewidth())


def legend_below(panel: "Axes") -> None:
    """Under the axes: inside there is no place that the curves of every run leave free."""
    from matplotlib.transforms import ScaledTranslation

    figure = panel.get_figure()
    labels = panel.get_legend_handles_labels()[1]
    if figure is None or not labels:
        return
    inches = panel.get_window_extent().width / figure.dpi
    across = int(inches / (0.6 + 0.065 * max(map(len, labels))))  # a sample of a line, and letters of 8 points
    panel.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        # Points, not a share of the height: numbers and label of the axis take as much room on small panels.
        bbox_transform=panel.transAxes + ScaledTranslation(0, -36 / 72, figure.dpi_scale_trans),
        borderaxespad=0,
        ncols=max(1, min(across, len(labels))),
    )


def lay_out(figure: "Figure") -> None:
    """Once, or each file would be laid out a little better than the one before."""
    with _matplotlib().rc_context(STYLE):  # by which an axis knows how many numbers it has room for
        figure.draw_without_rendering()
    figure.set_layout_engine("none")


def save(figure: "Figure", path: Path) -> Path:
    """Its ending says the kind of file. The same figure gives the same bytes."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in KINDS:
        raise ValueError(f"{path}: a figure is written as .pdf, .svg or .png")
    path.parent.mkdir(parents=True, exist_ok=True)
    dated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
    with _matplotlib().rc_context(STYLE):
        figure.savefig(path, metadata=dated)
    return path


def close(figure: "Figure") -> None:
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'mgpp[plot]'") from None
    return matplotlib
