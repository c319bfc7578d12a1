"""Figures. Each function draws on the axes it is given, or on new ones, and returns them."""

from mgpp.report.figures.comparison import metric
from mgpp.report.figures.gallery import FIGURES, write_figure
from mgpp.report.figures.layers import layer_heat
from mgpp.report.figures.prior import landscapes, penalties
from mgpp.report.figures.training import cuts, loss, regrowth, remaining, sparsity, spike, weights_and_cuts

__all__ = [
    "FIGURES",
    "cuts",
    "landscapes",
    "layer_heat",
    "loss",
    "metric",
    "penalties",
    "regrowth",
    "remaining",
    "sparsity",
    "spike",
    "weights_and_cuts",
    "write_figure",
]
