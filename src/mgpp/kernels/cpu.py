"""The prior, masks and selection on a CPU, by the torch operations that are fast there.

Selection: after the ramp the cut moves little, and a band around the last holds it. One pass counts what lies
under the band and gathers what lies inside, a few thousand values of millions; their order gives the cut exactly. A cut
that is not in the band is found by the full radix select.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mgpp.functional.chunks import chunks
from mgpp.functional.prior import log_odds
from mgpp.functional.score import magnitude
from mgpp.functional.select import Cut, Score, zero_below_
from mgpp.functional.select import zero_smallest_ as by_radix_
from mgpp.kernels import curvature

# The band on either side of the last cut, relative: four times the cut's last move, within these bounds. Sorting what
# lies in a wide one takes no longer than the full select.
LEAST_BAND, MOST_BAND = 5e-4, 0.3


@dataclass(frozen=True)
class Taken:
    """What an event took: its numbers are there at once."""

    at: Cut
    zeros_of_each: list[int]

    def ready(self) -> bool:
        return True

    def cut(self) -> Cut:
        return self.at

    def zeros(self) -> list[int]:
        return self.zeros_of_each


def supports(*lists: Sequence[Tensor]) -> bool:
    tensors = [tensor for tensors in lists for tensor in tensors]
    return all(t.device.type == "cpu" and t.dtype == torch.float32 and t.is_contiguous() for t in tensors)


def add_prior_gradient_(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    *,
    scale: float,
    slab_prob: float,
    spike_var: float,
    slab_var: float,
) -> None:
    """Twin: mgpp.functional.prior.add_prior_gradient_. The same terms, gathered so that five passes do for ten."""
    c1, c2 = log_odds(slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var)
    offset = torch.tensor(-c1, dtype=torch.float32)
    for weight, grad in zip(weights, grads, strict=True):
        for w, g in chunks(weight, grad):
            stiffness = in_spike_(torch.addcmul(offset, w, w, value=-c2))
            stiffness.mul_(scale * (1 / spike_var - 1 / slab_var)).add_(scale / slab_var)
            g.addcmul_(w, stiffness)


def in_spike_(log_odds_of_spike: Tensor) -> Tensor:
    """Their probability, in place. What lies further out is nothing beside the slab's part, and slow to compute."""
    return log_odds_of_spike.clamp_(min=-80).sigmoid_()


_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def mask_(tensors: Sequence[Tensor], keeps: Sequence[Tensor], *, sources: Sequence[Tensor] | None = None) -> None:
    """Twin: mgpp.functional.mask.mask_. A value's bits and all ones, or none: 60 us for 256 Ki on one core, where a
    choice between two floats takes 360."""
    for tensor, keep, source in zip(tensors, keeps, sources or tensors, strict=True):
        bits = _BITS[tensor.itemsize]
        for piece, kept, values in chunks(tensor, keep, source):
            ones = kept.view(torch.int8).neg().to(bits)
            torch.bitwise_and(values.view(bits), ones, out=piece.view(bits))


def zero_smallest_(
    weights: Sequence[Tensor],
    k: int,
    *,
    score: Score = magnitude,
    inputs: Sequence[Sequence[Tensor]] | None = None,
    kernel: str = "magnitude",
    scratch: dict[str, Any],
) -> Cut | Taken:
    """Twin: mgpp.functional.select.zero_smallest_, for scores that are not negative. `kernel` names the score, see
    mgpp.kernels.zero_smallest_."""
    near, move = scratch.get("cut", (0.0, LEAST_BAND))
    beside = inputs if inputs is not None else [()] * len(weights)
    found = _Band(near, 4 * move, kernel).look(weights, k, score, beside) if near > 0 else None
    if found is None or found.at.ties:
        cut: Cut | Taken = by_radix_(weights, k, score=score, inputs=inputs)
    elif kernel == "magnitude":
        cut = found
        zero_under_(weights, found.at.value)
    elif _is_curvature(kernel, weights, beside, found.at.value, found.at.value):
        cut = found
        for weight, (second_moment, correction) in zip(weights, beside, strict=True):
            curvature.zero_under_(weight, second_moment, correction, found.at.value)
    else:
        cut = found.at
        zero_below_(weights, found.at, score=score, inputs=inputs)
    value = cut.value if isinstance(cut, Cut) else cut.at.value
    scratch["cut"] = (value, abs(value - near) / value if near > 0 and value > 0 else LEAST_BAND)
    return cut


def zero_under_(weights: Sequence[Tensor], cut: float) -> None:
    """Zero the weights of smaller size than the cut."""
    # hardshrink keeps |w| > λ: with λ the float just under the cut that is |w| >= cut. It is one vectorised pass, where
    # a comparison and masked_fill_ take seven times as long.
    just_under = float(torch.nextafter(torch.tensor(cut), torch.tensor(0.0)))
    for weight in weights:
        for (piece,) in chunks(weight):
            torch.hardshrink(piece, just_under, out=piece)


def _is_curvature(
    kernel: str, weights: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], low: float, high: float
) -> bool:
    """Can these scores be compared with these bounds by their squares?"""
    return (
        kernel == "curvature"
        and supports([moment for moment, _ in inputs])
        # A weight that has never had a gradient has one number for all its moments.
        and all(moment.shape == weight.shape for weight, (moment, _) in zip(weights, inputs, strict=True))
        and curvature.can_bound(low, high, [correction for _, correction in inputs])
    )


class _Band:
    def __init__(self, near: float, width: float, kernel: str) -> None:
        width = min(max(width, LEAST_BAND), MOST_BAND)
        self.low, self.high, self._kernel = near * (1 - width), near * (1 + width), kernel

    def look(self, weights: Sequence[Tensor], k: int, score: Score, inputs: Sequence[Sequence[Tensor]]) -> Taken | None:
        """The cut under which k weights lie, if it is inside the band."""
        below: list[int] = []
        inside: list[Tensor] = []
        squared = _is_curvature(self._kernel, weights, inputs, self.low, self.high)
        for weight, beside in zip(weights, inputs, strict=True):
            if squared:
                under, found = curvature.count(self.low, self.high, weight, *beside)
            else:
                under, found = self._count(score, weight, *beside)
            below.append(under)
            inside.append(found)
        left = k - sum(below)
        values = torch.cat(inside).sort().values
        if not 0 <= left < values.numel():
            return None
        value = values[left]
        under = int(torch.searchsorted(values, value))
        zeros = [count + int((found < value).sum()) for count, found in zip(below, inside, strict=True)]
        return Taken(Cut(value=float(value), below=k - left + under, ties=left - under), zeros)

    def _count(self, score: Score, *tensors: Tensor) -> tuple[int, Tensor]:
        below, inside = 0, []
        for piece in chunks(*tensors):
            size = score(*piece)
            under, up_to = size < self.low, size < self.high
            below += int(torch.count_nonzero(under))
            inside.append(size[under ^ up_to])
        return below, torch.cat(inside) if inside else tensors[0].new_empty(0)
