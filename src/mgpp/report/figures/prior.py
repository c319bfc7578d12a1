"""The paper's Fig. 1 and Fig. A1: the mixture Gaussian prior beside other penalties, and what shapes it."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mgpp.functional.prior import half_width, log_prior
from mgpp.report.figures.canvas import COLORS, DASHES, panels_or_new, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Fig. 1's own values; not those that the paper prunes with.
SLAB_PROB, SPIKE_VAR, SLAB_VAR = 1e-6, 1e-7, 0.1


@styled
def penalties(
    axes: "Sequence[Axes] | None" = None,
    *,
    slab_prob: float = SLAB_PROB,
    spike_var: float = SPIKE_VAR,
    slab_var: float = SLAB_VAR,
) -> "list[Axes]":
    """Fig. 1: L0, L1, L2 and -log π, the last with a view of what happens near zero."""
    shape = {"slab_prob": slab_prob, "spike_var": spike_var, "slab_var": slab_var}
    _check(shape)
    panels = panels_or_new(axes, 4, size=(10, 2.6))
    theta = _around_zero(1.0)
    plain: list[tuple[str, Callable[[Tensor], Tensor]]] = [
        ("$L_0$", lambda w: (w != 0).double()),
        ("$L_1$", torch.abs),
        ("$L_2$", torch.square),
    ]
    for panel, (name, penalty) in zip(panels, plain, strict=False):
        panel.plot(theta, penalty(theta), color=COLORS[0])
        panel.set(title=f"{name} penalty", xlabel=r"$\theta$")
    panels[0].plot(0, 0, "o", color=COLORS[0], markersize=4)
    panels[0].plot(0, 1, "o", color=COLORS[0], markersize=4, markerfacecolor="white")
    _mixture(panels[3], shape)
    panels[0].set_ylabel("penalty")
    return panels


def _mixture(panel: "Axes", shape: dict[str, float]) -> None:
    width = half_width(**shape)
    theta = _around_zero(1.0, detail=2 * width)
    panel.plot(theta, -log_prior(theta, **shape), color=COLORS[1])
    panel.set(title=r"MGP, $-\log\,\pi(\theta)$", xlabel=r"$\theta$")
    zoom = panel.inset_axes((0.62, 0.2, 0.36, 0.42))
    near = _around_zero(2.5 * width)
    zoom.plot(near, -log_prior(near, **shape), color=COLORS[1], linewidth=1)
    zoom.set(yticks=[], xticks=[-2 * width, 2 * width])
    zoom.set_xticklabels([f"−{2 * width:.1g}", f"{2 * width:.1g}"])
    zoom.tick_params(labelsize=6, length=2, pad=1)
    zoom.spines[["top", "right"]].set_visible(True)
    panel.indicate_inset_zoom(zoom, edgecolor="grey", alpha=0.6)


@styled
def landscapes(
    axes: "Sequence[Axes] | None" = None,
    *,
    slab_prob: float = SLAB_PROB,
    spike_var: float = SPIKE_VAR,
    slab_var: float = SLAB_VAR,
) -> "list[Axes]":
    """Fig. A1: how λ, σ0² and σ1² change -log π. Each panel varies one around the values given, where it acts.

    A larger λ makes the spike narrower here, as the equations say (its half-width falls with λ); the paper's text has
    it the other way round.
    """
    shape = {"slab_prob": slab_prob, "spike_var": spike_var, "slab_var": slab_var}
    varied = [
        ("slab_prob", r"\lambda", [slab_prob * factor for factor in (1e-3, 1.0, 1e3)]),
        ("spike_var", r"\sigma_0^2", [spike_var * factor for factor in (0.1, 1.0, 10.0)]),
        ("slab_var", r"\sigma_1^2", [slab_var * factor for factor in (0.2, 1.0, 5.0)]),
    ]
    for name, _, values in varied:
        for value in values:
            _check({**shape, name: value})
    panels = panels_or_new(axes, 3, size=(10, 3))
    for panel, (name, symbol, values) in zip(panels, varied, strict=True):
        shapes = [{**shape, name: value} for value in values]
        reach = 1.0 if name == "slab_var" else 1.6 * max(half_width(**each) for each in shapes)
        for number, each in enumerate(shapes):
            theta = _around_zero(reach, detail=2 * half_width(**each))
            label = f"${symbol} = {_power(each[name])}$"
            panel.plot(theta, -log_prior(theta, **each), color=COLORS[number], linestyle=DASHES[number], label=label)
        panel.set(xlabel=r"$\theta$", title=f"({'abc'[varied.index((name, symbol, values))]}) ${symbol}$")
        panel.ticklabel_format(axis="x", style="sci", scilimits=(-2, 2))
        # Below: inside, a valley or a wall is in the way.
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, handlelength=1.6, columnspacing=0.8)
    panels[0].set_ylabel(r"$-\log\,\pi(\theta)$")
    return panels


def _check(shape: dict[str, float]) -> None:
    """Refuse what has no spike, and so no picture; landscapes draws a thousand times slab_prob, too."""
    try:
        fits = 0 < shape["slab_prob"] < 1 and 1e-30 <= shape["spike_var"] < shape["slab_var"] < math.inf
        fits = fits and half_width(**shape) > 0
    except (ValueError, ArithmeticError):
        fits = False
    if not fits:
        told = ", ".join(f"{name}={value:g}" for name, value in shape.items())
        raise ValueError(f"{told}: a mixture has 0 < slab_prob < 1, a small one, and 1e-30 <= spike_var < slab_var")


def _around_zero(reach: float, *, detail: float | None = None) -> Tensor:
    """Points from -reach to reach, 0 among them; as many again within `detail`, for a spike is narrow."""
    parts = [torch.linspace(-reach, reach, 801, dtype=torch.float64)]
    if detail is not None and detail < reach:
        parts.append(torch.linspace(-detail, detail, 401, dtype=torch.float64))
    return torch.cat(parts).unique()


def _power(value: float) -> str:
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    if -2 <= int(exponent) <= 1:
        return f"{value:g}"
    front = "" if float(mantissa) == 1 else f"{float(mantissa):g} \\times "
    return f"{front}10^{{{int(exponent)}}}"
