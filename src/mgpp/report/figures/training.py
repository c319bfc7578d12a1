"""What happened while a run pruned: the paper's Fig. 2 from two runs of one's own, and what its records tell beside."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mgpp.report.figures.canvas import (
    COLORS,
    DASHES,
    axes_or_new,
    draw_line,
    legend_below,
    panels_or_new,
    styled,
)
from mgpp.report.run import NothingToShow, Run, read_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Runs = Sequence["Run | str | Path"]


@styled
def weights_and_cuts(runs: Runs, axes: "Sequence[Axes] | None" = None) -> "list[Axes]":
    """Fig. 2: (a) how large the remaining weights are at the end, (b) the cut during training."""
    found = _as_runs(runs)
    panels = panels_or_new(axes, 2, size=(8, _height(found)))
    remaining(found, panels[0])
    cuts(found, panels[1])
    for letter, panel in zip("ab", panels, strict=True):
        panel.set_title(f"({letter}) {panel.get_title()}")
    legend = panels[1].get_legend()
    if legend is not None:
        legend.remove()  # the same as the other's
    return panels


@styled
def remaining(runs: Runs, axes: "Axes | None" = None) -> "Axes":
    """How the sizes of the weights left at the last look are distributed; where the cut is one, it is a thin line."""
    found = _need(runs, "looks", "a look at the weights (looks=… in PruningCallback)")
    panel = _panel(axes, found)
    filled: list[float] = []
    for number, run in enumerate(found):
        last = run.looks[-1]
        sizes = last["look"]["sizes"]
        edges = [2 ** (sizes["log2"] + i / sizes["per_octave"]) for i in range(len(sizes["after"]) + 1)]
        total = max(1, sum(sizes["after"]))
        share = [count / total * sizes["per_octave"] for count in sizes["after"]]
        filled += [edge for edge, count in zip(edges, sizes["after"], strict=False) if count]
        look = {"color": COLORS[number % len(COLORS)], "linestyle": DASHES[number % len(DASHES)]}
        panel.stairs(share, edges, label=_label(run, found), linewidth=1.5, **look)
        if run.by_size and "cut" in last:
            panel.axvline(last["cut"], linewidth=0.8, **look)
    panel.set(xscale="log", xlabel=r"$|\theta|$", ylabel="share per octave", title="remaining weights")
    if filled:
        panel.set_xlim(min(filled) / 1.5, max(filled) * 1.5)
    _plain_ticks(panel.xaxis)
    legend_below(panel)
    return panel


def _plain_ticks(axis: "Axis") -> None:
    """0.05, 0.1, 0.2: over one or two decades powers of ten are too few, and their multiples too long."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high / low < 300:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


@styled
def cuts(runs: Runs, axes: "Axes | None" = None) -> "Axes":
    """The cut at every event, and dotted, where it is a size and there is a prior, the half-width of its spike."""
    found = _need(runs, "cuts", "a weight that was pruned")
    panel = _panel(axes, found)
    for number, run in enumerate(found):
        color = COLORS[number % len(COLORS)]
        steps = [event["step"] for event in run.cuts]
        line = DASHES[number % len(DASHES)]
        sizes = [event["cut"] for event in run.cuts]
        draw_line(panel, steps, sizes, color=color, linestyle=line, label=_label(run, found))
        widths = [event["half_width"] for event in run.cuts if run.by_size and "half_width" in event]
        if len(widths) == len(steps):
            draw_line(panel, steps, widths, color=color, linestyle=":", linewidth=1)
            panel.annotate(
                "half-width of the spike", (steps[-1], widths[-1]), (0, 3), textcoords="offset points",
                ha="right", fontsize=7, color=color,
            )  # fmt: skip
    is_one_score = len({run.by_size for run in found}) == 1
    what = "cut" if is_one_score else "cut, each run's by its own score"
    panel.set(yscale="log", xlabel="step", ylabel=what, title="cut during training")
    legend_below(panel)
    return panel


@styled
def sparsity(runs: Runs, axes: "Axes | None" = None) -> "Axes":
    """The share of weights that is zero after every event, and grey, what was asked for."""
    found = _need(runs, "events", "a pruning event")
    panel = _panel(axes, found)
    for number, run in enumerate(found):
        steps = [event["step"] for event in run.events]
        asked = [event["target"] for event in run.events]
        draw_line(panel, steps, asked, color="silver", linewidth=4, zorder=1, label=None if number else "asked for")
        _line(panel, number, found, steps, [event["sparsity"] for event in run.events])
    panel.set(xlabel="step", ylabel="sparsity", ylim=(0, 1))
    legend_below(panel)
    return panel


@styled
def loss(runs: Runs, axes: "Axes | None" = None) -> "Axes":
    """The training loss as logged; the ramp is shaded."""
    found = _need(runs, "logs", "a logged loss")
    panel = _panel(axes, found)
    for number, run in enumerate(found):
        _line(panel, number, found, *run.logged("loss"))
    _shade_ramps(panel, found)
    panel.set(xlabel="step", ylabel="training loss")
    legend_below(panel)
    return panel


@styled
def regrowth(runs: Runs, axes: "Axes | None" = None) -> "Axes":
    """Of the weights that were zero at one look, the share that is not at the next."""
    found = _need(runs, "looks", "a look at the weights (looks=… in PruningCallback)")
    panel = _panel(axes, found)
    most = 0.0
    for number, run in enumerate(found):
        steps, shares = run.looked("came_back")
        most = max([most, *shares])
        _line(panel, number, found, steps, [100 * share for share in shares])
    if most == 0:
        panel.text(0.5, 0.5, "nothing came back", transform=panel.transAxes, ha="center", color="grey")
    _shade_ramps(panel, found)
    panel.set(xlabel="step", ylabel="pruned weights that came back, %")
    panel.set_ylim(bottom=0, top=max(0.1, panel.get_ylim()[1]))
    legend_below(panel)
    return panel


@styled
def spike(runs: Runs, axes: "Axes | None" = None) -> "Axes":
    """The share of all weights that lie in the prior's spike (g > ½) just before an event; grey, those already pruned.

    What has been pruned lies in it, too, as far as it has not grown out of it since the last event. What is above the
    grey line the prior has gathered by itself.
    """
    drawn = [run for run in _as_runs(runs) if run.looked("in_spike")[0]]
    if not drawn:
        raise NothingToShow("none of these runs has a mixture prior whose spike was looked at: choose an mgpp run")
    panel = _panel(axes, drawn)
    for number, run in enumerate(drawn):
        steps = [event["step"] for event in run.events]
        zeros = [event["sparsity"] for event in run.events]
        gone = None if number else "already pruned"
        panel.plot([0, *steps], [0, *zeros], color="silver", linewidth=3, zorder=1, drawstyle="steps-post", label=gone)
        _line(panel, number, drawn, *run.looked("in_spike"))
    panel.set(xlabel="step", ylabel=r"share of weights with $g(\theta) > ½$", ylim=(0, 1))
    legend_below(panel)
    return panel


def _panel(axes: "Axes | None", runs: Sequence[Run]) -> "Axes":
    return axes_or_new(axes, size=(4.5, _height(runs)))


def _height(runs: Sequence[Run]) -> float:
    """In inches; each run takes a line of the legend."""
    return 3.0 + 0.17 * len(runs)


def _line(panel: "Axes", number: int, runs: Sequence[Run], steps: Sequence[int], values: Sequence[float]) -> None:
    look = {"color": COLORS[number % len(COLORS)], "linestyle": DASHES[number % len(DASHES)]}
    draw_line(panel, steps, values, **look, label=_label(runs[number], runs))


def _shade_ramps(panel: "Axes", runs: Sequence[Run]) -> None:
    ramps = {(run.schedule["start"], run.schedule["end"]) for run in runs if run.schedule is not None}
    if len(ramps) == 1:  # several would hide each other
        panel.axvspan(*ramps.pop(), color="grey", alpha=0.12, linewidth=0, label="ramp")


def _label(run: Run, among: Sequence[Run]) -> str:
    """With its folder's name, unless that says no more; always where another has the same label."""
    is_told = run.label.lower().split()[0] in run.name.lower()
    alone = sum(other.label == run.label for other in among) == 1
    return run.label if is_told and alone else f"{run.name} ({run.label})"


def _as_runs(runs: Runs) -> list[Run]:
    given = [runs] if isinstance(runs, Run | str | Path) else list(runs)
    paths = [run for run in given if not isinstance(run, Run)]
    read = iter(read_runs(paths) if paths else [])
    return [run if isinstance(run, Run) else next(read) for run in given]


def _need(runs: Runs, what: str, described: str) -> list[Run]:
    found = _as_runs(runs)
    for run in found:
        if not getattr(run, what):
            raise NothingToShow(f"{run.folder} has no record of {described} yet")
    return found
