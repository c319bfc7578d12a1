"""The prior, masks and selection on a CPU: by compiled C++ where there is a compiler (passes.py), else by the torch
operations that are fast there.

Selection: after the ramp the cut moves little, and a band around the last holds it. One pass counts what lies
under the band and gathers what lies inside, a few thousand values of millions; their order gives the cut exactly. A cut
that is not in the band is found by the full radix select.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mgpp.functional.chunks import chunks
from mgpp.functional.prior import log_odds
from mgpp.functional.score import magnitude
from mgpp.functional.select import Cut, Score, zero_below_
from mgpp.functional.select import zero_smallest_ as by_radix_
from mgpp.kernels import curvature, passes
from mgpp.kernels.passes import Passes, Strength

# The band on either side of the last cut, relative: four times the cut's last move, within these bounds. A wider one
# would gather a large part of all scores.
LEAST_BAND, MOST_BAND = 5e-4, 0.3

LARGEST = torch.finfo(torch.float32).max


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
    spike, limit = scale * (1 / spike_var - 1 / slab_var), abs(scale) * LARGEST
    strength = Strength(spike=min(spike, LARGEST), slab=scale / slab_var, limit=min(limit, LARGEST))
    compiled = passes.compiled()
    if compiled is not None:
        compiled.add_prior_gradient_(weights, grads, strength, (c1, c2))
        return
    offset = torch.tensor(-c1, dtype=torch.float32)
    for weight, grad in zip(weights, grads, strict=True):
        for w, g in chunks(weight, grad):
            stiffness = in_spike_(torch.addcmul(offset, w, w, value=-c2))
            g.addcmul_(w, stiffness.mul_(strength.spike).add_(strength.slab))


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
    found = None
    if near > 0:
        width = min(max(4 * move, LEAST_BAND), MOST_BAND)
        beside = inputs if inputs is not None else [()] * len(weights)
        band = _Band(near * (1 - width), near * (1 + width), kernel, weights, score, beside)
        compiled = passes.compiled() if band.is_size or band.is_curvature else None
        found = band.take_by_torch_(k) if compiled is None else band.take_(k, compiled)
    cut = by_radix_(weights, k, score=score, inputs=inputs) if found is None else found
    value = cut.value if isinstance(cut, Cut) else cut.at.value
    scratch["cut"] = (value, abs(value - near) / value if near > 0 and value > 0 else LEAST_BAND)
    return cut


def zero_under_(weights: Sequence[Tensor], cut: float) -> None:
    """Zero the weights of smaller size than the cut."""
    compiled = passes.compiled()
    if compiled is not None:
        compiled.zero_under_(weights, [()] * len(weights), cut)
        return
    # hardshrink keeps |w| > λ: with λ the float just under the cut that is |w| >= cut. It is one vectorised pass, where
    # a comparison and masked_fill_ take seven times as long.
    just_under = float(torch.nextafter(torch.tensor(cut), torch.tensor(0.0)))
    for weight in weights:
        for (piece,) in chunks(weight):
            torch.hardshrink(piece, just_under, out=piece)


@dataclass(frozen=True)
class _Band:
    """Scores from `low` to `high`, among which the cut is looked for."""

    low: float
    high: float
    kernel: str
    weights: Sequence[Tensor]
    score: Score
    inputs: Sequence[Sequence[Tensor]]

    @property
    def is_size(self) -> bool:
        return self.kernel == "magnitude"

    @functools.cached_property
    def is_curvature(self) -> bool:
        """Of moments that are plain enough. A weight that has never had a gradient has one number for all of its."""
        return (
            self.kernel == "curvature"
            and supports([moment for moment, _ in self.inputs])
            and all(moment.shape == weight.shape for weight, (moment, _) in self._each())
        )

    def take_(self, k: int, compiled: Passes) -> Taken | None:
        """Zero the k weights of smallest score, if the cut under which they lie is inside the band."""
        below, inside = compiled.look(self.weights, self.inputs, self.low, self.high)
        cut = _cut_among(inside, k, below)
        if cut is None:
            return None
        zeros, equal = compiled.zero_under_(self.weights, self.inputs, cut.value)
        left = cut.ties
        for i, (weight, beside) in enumerate(self._each()):
            ties = min(equal[i], left)
            if ties:
                zero_below_([weight], Cut(cut.value, 0, ties), score=self.score, inputs=[beside])
            zeros[i], left = zeros[i] + ties, left - ties
        return Taken(cut, zeros)

    def take_by_torch_(self, k: int) -> Cut | Taken | None:
        """The same, by torch's operations."""
        counted = [self._count(weight, *beside) for weight, beside in self._each()]
        cut = _cut_among(torch.cat([inside for _, inside in counted]), k, sum(below for below, _ in counted))
        if cut is None:
            return None
        if cut.ties == 0 and self.is_size:
            zero_under_(self.weights, cut.value)
        elif cut.ties == 0 and self._bounds_by_squares(cut.value, cut.value):
            for weight, (moment, correction) in self._each():
                curvature.zero_under_(weight, moment, correction, cut.value)
        else:
            zero_below_(self.weights, cut, score=self.score, inputs=self.inputs)
            return cut
        return Taken(cut, [below + int((inside < cut.value).sum()) for below, inside in counted])

    def _each(self) -> Iterable[tuple[Tensor, Sequence[Tensor]]]:
        return zip(self.weights, self.inputs, strict=True)

    def _bounds_by_squares(self, low: float, high: float) -> bool:
        return self.is_curvature and curvature.can_bound(low, high, [correction for _, correction in self.inputs])

    def _count(self, weight: Tensor, *beside: Tensor) -> tuple[int, Tensor]:
        """How many score below the band, and the scores inside."""
        if self._bounds_by_squares(self.low, self.high):
            return curvature.count(self.low, self.high, weight, *beside)
        below, inside = 0, []
        for piece in chunks(weight, *beside):
            size = self.score(*piece)
            under, up_to = size < self.low, size < self.high
            below += int(torch.count_nonzero(under))
            inside.append(size[under ^ up_to])
        return below, torch.cat(inside) if inside else weight.new_empty(0)


def _cut_among(scores: Tensor, k: int, below: int) -> Cut | None:
    """The cut under which k scores lie, if it is one of these, which `below` scores lie under."""
    if not 0 <= k - below < scores.numel():
        return None
    value = scores.kthvalue(k - below + 1).values
    below += int((scores < value).sum())
    return Cut(value=float(value), below=below, ties=k - below)
