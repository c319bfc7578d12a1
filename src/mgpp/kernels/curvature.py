"""The curvature score |w|·√(v/c) on a CPU, compared with a bound b as w²·v is with b²·c.

That takes two products, where the score itself takes a division, a root and three bounds. What lies so near to a bound
that rounding could matter is scored as mgpp.functional.score.curvature does, which is the twin. A comparison is read
from the sign of a difference: torch takes longer to make a bool than to do the rest.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from mgpp.functional.chunks import chunks
from mgpp.functional.score import curvature

MARGIN = 1e-5  # of a bound: what products and roots round is a few times 1e-7
# Squares of bounds within these can be trusted: what under- or overflows lies far off, on the right side.
LEAST, MOST = 1e-30, 1e30


def can_bound(low: float, high: float, corrections: Sequence[Tensor]) -> bool:
    return all(low**2 * float(c) > LEAST and high**2 * float(c) < MOST for c in corrections)


def count(low: float, high: float, weight: Tensor, second_moment: Tensor, correction: Tensor) -> tuple[int, Tensor]:
    """How many score below `low`, and the scores that are not but below `high`."""
    least, most = (bound**2 * float(correction) for bound in (low * (1 - MARGIN), high * (1 + MARGIN)))
    half = _rounded((most - least) / 2)
    below, inside = 0, []
    for w, v in chunks(weight.view(-1), second_moment.view(-1)):
        over = _squared(w, v)
        if over is None:
            near = torch.arange(len(w))
        else:
            below -= int(_below_zero(over.sub_(least)).sum(dtype=torch.int32))
            near = _within(over.sub_(half), half)
        if len(near):
            score = curvature(w[near], v[near], correction)
            below += int(torch.count_nonzero(score < low))
            inside.append(score[(score >= low) & (score < high)])
    return below, torch.cat(inside) if inside else weight.new_empty(0)


def zero_under_(weight: Tensor, second_moment: Tensor, correction: Tensor, cut: float) -> None:
    """Zero the weights that score below the cut."""
    bound = cut**2 * float(correction)
    for w, v in chunks(weight.view(-1), second_moment.view(-1)):
        over = _squared(w, v)
        if over is None:
            goes, near = torch.zeros_like(w, dtype=torch.int32), torch.arange(len(w))
        else:
            goes = _below_zero(over.sub_(bound))
            near = _within(over, _rounded(3 * MARGIN * bound))
        if len(near):
            goes[near] = -(curvature(w[near], v[near], correction) < cut).int()
        w.view(torch.int32).bitwise_and_(goes.bitwise_not_())


def _squared(w: Tensor, v: Tensor) -> Tensor | None:
    """w²·v; None where that says nothing: a moment is infinite, and a zero times it is NaN."""
    squared = torch.mul(w, v).mul_(w)
    return squared if torch.isfinite(squared.amax()) else None


def _below_zero(numbers: Tensor) -> Tensor:
    """-1, which is all ones, for each that is; else 0."""
    return numbers.view(torch.int32) >> 31


def _within(numbers: Tensor, most: float) -> Tensor:
    """Where those are whose size is `most` at most. Of most pieces there are none, which is soon found out."""
    sizes = numbers.abs_()
    return (sizes <= most).nonzero().squeeze(-1) if sizes.amin() <= most else torch.arange(0)


def _rounded(number: float) -> float:
    return float(torch.tensor(number, dtype=torch.float32))
