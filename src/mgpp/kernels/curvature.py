"""The curvature score |w|·√(v/c) on a CPU, compared with a bound b as w²·v is with b²·c.

That takes two products, where the score itself takes a division, a root and three bounds. What lies so near to a bound
that rounding could matter is scored as mgpp.functional.score.curvature does, which is the twin. A comparison is read
from the sign of a difference: torch takes longer to make a bool than to do the rest.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mgpp.functional.chunks import chunks
from mgpp.functional.score import curvature

MARGIN = 1e-5  # of a bound: what products and roots round is a few times 1e-7
# Squares of bounds within these can be trusted: what under- or overflows lies far off, on the right side. A subnormal
# moment, which v/c would round coarsely, lies under the least with any weight up to 1e7.
LEAST, MOST = 1e-24, 1e30


def can_bound(low: float, high: float, corrections: Sequence[Tensor]) -> bool:
    return all(low**2 * float(c) > LEAST and high**2 * float(c) < MOST for c in corrections)


def bounds(low: float, high: float, correction: Tensor) -> tuple[float, float]:
    """Of the squares of the scores that may lie from `low` to `high`: the least, and half the way to the most."""
    least, most = (bound**2 * float(correction) for bound in (low * (1 - MARGIN), high * (1 + MARGIN)))
    return least, float(torch.tensor((most - least) / 2, dtype=torch.float32))


def count_below(least: float, half: float, w: Tensor, v: Tensor) -> tuple[int, Tensor, Tensor]:
    """How many surely score below the bounds, and the weights and moments that may score within: all, where squares do
    not tell."""
    w, v = w.view(-1), v.view(-1)
    compared = _compared(least, half, w, v)
    if compared is None:
        return 0, w, v
    under, near = compared
    below = -int(under.sum(dtype=torch.int32))
    return (below, w[near], v[near]) if len(near) else (below, near, near)


def zero_under_(weight: Tensor, second_moment: Tensor, correction: Tensor, cut: float) -> None:
    """Zero the weights that score below the cut."""
    least, half = bounds(cut, cut, correction)
    for w, v in chunks(weight.view(-1), second_moment.view(-1)):
        compared = _compared(least, half, w, v)
        if compared is None:
            w.masked_fill_(curvature(w, v, correction) < cut, 0)
            continue
        under, near = compared
        if len(near):
            under[near] = -(curvature(w[near], v[near], correction) < cut).int()
        w.view(torch.int32).bitwise_and_(under.bitwise_not_())
        del compared, under, near  # they would lie beside the next piece's


def _compared(least: float, half: float, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor] | None:
    """-1, which is all ones, for each that surely scores below the bounds, else 0; and where those are that may score
    within. None where those are too many to gather, or a moment is infinite: a zero times it is NaN."""
    over = torch.mul(w, v).mul_(w)
    if not math.isfinite(over.amax()):
        return None
    under = over.sub_(least).view(torch.int32) >> 31
    distance = over.sub_(half).abs_()
    if float(distance.amin()) > half:  # as in most pieces
        return under, torch.arange(0)
    near = distance <= half
    return (under, near.nonzero().squeeze(-1)) if 4 * int(near.count_nonzero()) <= len(w) else None
