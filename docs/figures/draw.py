"""The figures of the documentation, drawn from mgpp's own functions:  python docs/figures/draw.py [FOLDER]

Each function draws on the Axes it is given; `FIGURES` says which file shows which of them. They are committed as
drawn with the matplotlib of constraints.txt.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from mgpp import MGPP
from mgpp.functional.prior import half_width, log_prior, prior_gradient, spike_probability
from mgpp.functional.schedule import cubic_sparsity, is_event, prior_warm_up
from mgpp.report.figures import landscapes

HERE = Path(__file__).parent
_METHOD = MGPP(sparsity=0.9)
PRIOR = {name: getattr(_METHOD, name) for name in ("slab_prob", "spike_var", "slab_var")}
BLUE, ORANGE, GREEN, GREY = "#3f51b5", "#d9730d", "#2e8b57", "#777777"
STYLE = {
    "svg.hashsalt": "mgpp",  # the same ids, and so the same bytes, at every drawing
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}


def line(reach: float) -> Tensor:
    return torch.linspace(-reach, reach, 601, dtype=torch.float64)


def penalty(weight: Tensor, **prior: float) -> Tensor:
    """-log π(θ), less its value at zero."""
    return log_prior(torch.zeros(1, dtype=weight.dtype), **prior) - log_prior(weight, **prior)


def penalty_far(ax: Axes) -> None:
    w = line(0.5)
    ax.plot(w, penalty(w, **PRIOR), color=BLUE, label="mixture prior, -log π(θ)")
    ax.plot(w, 100 * w.square(), color=ORANGE, label="L2: 100·θ²")
    ax.plot(w, 50 * w.abs(), color=GREEN, label="L1: 50·|θ|")
    ax.set(title="as far as weights reach", xlabel="weight θ", ylabel="penalty (0 at θ = 0)", ylim=(0, 45))
    ax.legend(fontsize=8, loc="upper center")


def penalty_near(ax: Axes) -> None:
    edge = half_width(**PRIOR)
    w = line(3 * edge)
    ax.plot(w, penalty(w, **PRIOR), color=BLUE)
    ax.plot(w, 100 * w.square(), color=ORANGE)
    ax.plot(w, 50 * w.abs(), color=GREEN)
    mark_half_width(ax, edge)
    ax.set(title="very near zero", xlabel="weight θ", ylim=(-0.6, 45))
    ax.ticklabel_format(axis="x", style="sci", scilimits=(0, 0))


def mark_half_width(ax: Axes, edge: float) -> None:
    for side in (-edge, edge):
        ax.axvline(side, color=GREY, linewidth=1, linestyle=":")
    ax.text(1.08 * edge, 0.4, "half-width", transform=ax.get_xaxis_transform(), fontsize=8, color=GREY)


def probability(ax: Axes) -> None:
    edge = half_width(**PRIOR)
    w = line(2 * edge)
    g = spike_probability(w, **PRIOR)
    ax.fill_between(w, g, color=BLUE, alpha=0.25, linewidth=0, label="spike")
    ax.fill_between(w, g, torch.ones_like(g), color=ORANGE, alpha=0.25, linewidth=0, label="slab")
    ax.plot(w, g, color=BLUE)
    mark_half_width(ax, edge)
    ax.set(title="where a weight came from: g(θ)", xlabel="weight θ", ylabel="probability of the spike", ylim=(0, 1))
    ax.ticklabel_format(axis="x", style="sci", scilimits=(0, 0))
    ax.legend(fontsize=8, loc="lower left")


def pull(ax: Axes) -> None:
    edge = half_width(**PRIOR)
    w = torch.logspace(-7, 0, 300, dtype=torch.float64)
    ax.loglog(w, prior_gradient(w, **PRIOR), color=BLUE)
    ax.axvline(edge, color=GREY, linewidth=1, linestyle=":")
    ax.text(1.4 * edge, 0.93, "half-width", transform=ax.get_xaxis_transform(), fontsize=8, color=GREY)
    ax.set(title="how hard zero pulls", xlabel="|θ|", ylabel="gradient of -log π")


def ramp(ax: Axes) -> None:
    total, start, end, every = 1000, 100, 700, 50
    steps = range(1, total + 1)
    sparsities = [cubic_sparsity(t, start=start, end=end, final=0.9) for t in steps]
    ax.plot(steps, sparsities, color=BLUE, label="sparsity v(t)")
    ax.plot(steps, [prior_warm_up(t, start=start) for t in steps], color=ORANGE, label="prior's warm-up η(t)")
    events = [t for t in steps if is_event(t, start=start, end=end, every=every, last=total)]
    ax.plot(events, [-0.06] * len(events), "|", color=GREY, markersize=6, label="pruning events")
    for t in (start, end):
        ax.axvline(t, color=GREY, linewidth=1, linestyle=":")
    ax.set(xlabel="optimizer step", ylim=(-0.12, 1.05), xlim=(0, total))
    ax.set_xticks([0, start, end, total], ["0", "start", "end", "last step"])
    ax.legend(fontsize=8, loc="center right")


FIGURES: dict[str, Callable[[Axes], None]] = {
    "penalty_far": penalty_far,
    "penalty_near": penalty_near,
    "probability": probability,
    "pull": pull,
    "ramp": ramp,
}
LANDSCAPES = ("slab_prob", "spike_var", "slab_var")  # in the order in which `landscapes` draws them


def draw(folder: Path) -> None:
    """One file a figure, as wide as a phone: a wider page puts two side by side."""
    with mpl.rc_context(STYLE):
        made = {name: empty() for name in (*FIGURES, *LANDSCAPES)}
        for name, fill in FIGURES.items():
            fill(made[name].axes[0])
        for ax in landscapes([made[name].axes[0] for name in LANDSCAPES], **PRIOR):
            ax.set(title="", ylabel="penalty, -log π(θ)")
        for name, figure in made.items():
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})


def empty() -> Figure:
    figure = Figure(figsize=(3.6, 2.7), layout="constrained")
    figure.subplots()
    return figure


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
