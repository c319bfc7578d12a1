"""The prior, masks and selection on a CPU: by compiled C++ where there is a compiler (passes.py), else by the torch
operations that are fast there.

Selection: after the ramp the cut moves little, and a band around the last holds it. One pass counts what lies
under the band and gathers what lies inside, a few thousand values of millions; their order gives the cut exactly. Where
the band does not hold the cut, or too much beside it, compiled passes count on in smaller and smaller windows, with
256 KiB and 10 KiB on the stack of each thread; torch's operations do the full radix select. Those try a floor far under
the last cut first (gap.py), and take less than 1 MiB whatever they do.
"""

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mgpp.functional.chunks import chunks
from mgpp.functional.score import magnitude
from mgpp.functional.select import Cut, Score, find_cut, zero_below_
from mgpp.functional.select import zero_smallest_ as by_radix_
from mgpp.kernels import curvature, gap, passes
from mgpp.kernels.passes import Band, Odds, Strength
from mgpp.kernels.pieces import buffers, pieces

# The band on either side of the last cut, relative: four times the cut's last move, within these bounds. A wider one
# would gather a large part of all scores.
LEAST_BAND, MOST_BAND = 5e-4, 0.3

MOST = 1 << 15  # scores that torch's operations gather, 128 KiB: beside them lies what a piece takes
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
    return all(_is_plain(tensor) for tensors in lists for tensor in tensors)


def _is_plain(tensor: Tensor) -> bool:
    """Float32 numbers one after another in the machine's memory. A class of its own may keep them elsewhere."""
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and tensor.dtype == torch.float32
        and tensor.is_contiguous()
    )


def add_prior_gradient_(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    *,
    scale: float,
    slab_prob: float,
    spike_var: float,
    slab_var: float,
) -> None:
    """Twin: mgpp.functional.prior.add_prior_gradient_. The same terms, gathered so that five passes do for ten, and
    three where weights are as an event leaves them: zero, or so large that the spike is nothing to them."""
    odds = Odds.of(slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var)
    spike, limit = scale * (1 / spike_var - 1 / slab_var), abs(scale) * LARGEST
    slab = min(scale / slab_var, LARGEST)
    strength = Strength(spike=min(spike, LARGEST), slab=slab, limit=min(limit, LARGEST))
    compiled = passes.compiled()
    if compiled is not None:
        compiled.add_prior_gradient_(weights, grads, strength, odds)
        return
    room, stiffness = buffers(1, weights), Stiffness(odds, strength)
    # So far out the spike is nothing to a weight.
    far = min(math.sqrt(max(0.0, odds.most - odds.c1) / odds.c2), LARGEST) if odds.c2 > 0 else LARGEST
    pruned = True
    for weight, grad in zip(weights, grads, strict=True):
        for w, g, part in pieces(room, weight, grad):
            pruned = pruned and _is_pruned(w, far, out=part)  # where one piece is not, there is little hope for others
            if pruned:
                g.add_(w, alpha=slab)
            else:
                g.addcmul_(w, stiffness(w, out=part))


def _is_pruned(w: Tensor, far: float, *, out: Tensor) -> bool:
    """Are all that are smaller than this zero?"""
    # The gradient of a bound, here of itself: what lies within, and zero for what lies outside.
    inside = torch.ops.aten.hardtanh_backward.grad_input(w, w, -far, far, grad_input=out)
    return all(float(bound) == 0 for bound in inside.aminmax())


class Stiffness:
    """Twin: mgpp.functional.prior.prior_stiffness, times a strength."""

    def __init__(self, odds: Odds, strength: Strength) -> None:
        self.c2, self.most, self.spike = odds.c2, odds.most, strength.spike
        self.offset, self.slab = torch.tensor([-odds.c1, strength.slab], dtype=torch.float32)

    def __call__(self, w: Tensor, *, out: Tensor) -> Tensor:
        in_spike = torch.addcmul(self.offset, w, w, value=-self.c2, out=out).clamp_(min=-self.most).sigmoid_()
        return torch.add(self.slab, in_spike, alpha=self.spike, out=out)


_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def mask_(tensors: Sequence[Tensor], keeps: Sequence[Tensor], *, sources: Sequence[Tensor] | None = None) -> None:
    """Twin: mgpp.functional.mask.mask_. A value's bits and all ones, or none: 60 us for 256 Ki on one core, where a
    choice between two floats takes 360."""
    for tensor, keep, source in zip(tensors, keeps, sources or tensors, strict=True):
        bits = _BITS[tensor.itemsize]
        for piece, kept, values in chunks(tensor, keep, source, times=2):
            torch.bitwise_and(values.view(bits), kept.view(torch.int8).neg().to(bits), out=piece.view(bits))


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
    aimed_at, missed = scratch.get("floor", (None, 0))
    scores = _Scores(kernel, weights, score, inputs if inputs is not None else [()] * len(weights))
    width = min(max(4 * move, LEAST_BAND), MOST_BAND)
    band = near * (1 - width), near * (1 + width)
    is_possible = 0 <= k < sum(weight.numel() for weight in weights)  # else the twin says what is wrong
    beside = scores.for_passes() if is_possible else None
    compiled = passes.compiled() if beside is not None else None
    taken: Cut | Taken | None = None
    if beside is not None and compiled is not None:
        cut = compiled.find_cut(weights, beside, k, band)
        taken = Taken(cut, compiled.zero_below_(weights, beside, cut))
    elif near > 0:
        if aimed_at == k and missed % gap.AGAIN == 0:
            taken = scores.take_under_floor_(k, near)
        missed = missed + 1 if taken is None else 0
        taken = taken or scores.take_by_torch_(k, band)
    if taken is None:
        taken = by_radix_(weights, k, score=score, inputs=inputs)
    value = taken.value if isinstance(taken, Cut) else taken.at.value
    scratch["floor"] = k, missed if aimed_at == k else 0
    scratch["cut"] = (value, abs(value - near) / value if near > 0 and value > 0 else LEAST_BAND)
    return taken


def zero_under_(weights: Sequence[Tensor], cut: float) -> None:
    """Zero the weights of smaller size than the cut."""
    compiled = passes.compiled()
    if compiled is not None:
        compiled.zero_below_(weights, [()] * len(weights), Cut(cut, below=0, ties=0))
        return
    # hardshrink keeps |w| > λ: with λ the float just under the cut that is |w| >= cut. It is one vectorised pass, where
    # a comparison and masked_fill_ take seven times as long.
    at, zero = torch.tensor([cut, 0.0], dtype=torch.float32)
    just_under = float(torch.nextafter(at, zero))
    for weight in weights:
        torch.hardshrink(weight, just_under, out=weight)


@dataclass(frozen=True)
class _Scores:
    """Of all weights. A band of them, from `low` to `high`, is where the cut is looked for."""

    kernel: str
    weights: Sequence[Tensor]
    score: Score
    inputs: Sequence[Sequence[Tensor]]

    @property
    def are_sizes(self) -> bool:
        return self.kernel == "magnitude"

    @functools.cached_property
    def are_curvatures(self) -> bool:
        """Of moments that are plain enough. A weight that has never had a gradient has one number for all of its."""
        return (
            self.kernel == "curvature"
            and supports([moment for moment, _ in self.inputs])
            and all(moment.shape == weight.shape for weight, (moment, _) in self._each())
        )

    def for_passes(self) -> passes.Inputs | None:
        """The inputs as compiled passes take them, of sizes and of curvatures."""
        if self.are_sizes:
            return self.inputs
        if self.kernel != "curvature" or not supports([moment for moment, _ in self.inputs]):
            return None
        chunk_of: dict[float, Tensor] = {}
        inputs = []
        for weight, (moment, correction) in self._each():
            if moment.shape != weight.shape:
                moment = chunk_of.setdefault(float(moment), moment.expand(passes.CHUNK).contiguous())
            inputs.append((moment, correction))
        return inputs

    def take_under_floor_(self, k: int, near: float) -> Taken | None:
        if not (self.are_sizes or self.are_curvatures):
            return None
        found = gap.take_(self.weights, self.inputs, k, near)
        return Taken(*found) if found is not None else None

    def take_by_torch_(self, k: int, band: Band) -> Cut | Taken | None:
        """Zero the k weights of smallest score, if the cut under which they lie is inside the band, by torch's
        operations."""
        counted: list[tuple[int, Tensor]] = []
        for weight, beside in self._each():
            found = self._count(band, MOST - sum(len(inside) for _, inside in counted), weight, *beside)
            if found is None:
                return None
            counted.append(found)
        cut = _cut_among(torch.cat([inside for _, inside in counted]), k, sum(below for below, _ in counted))
        if cut is None:
            return None
        if cut.ties == 0 and self.are_sizes:
            zero_under_(self.weights, cut.value)
        elif cut.ties == 0 and self._bounded_by_squares(cut.value, cut.value):
            for weight, (moment, correction) in self._each():
                curvature.zero_under_(weight, moment, correction, cut.value)
        else:
            zero_below_(self.weights, cut, score=self.score, inputs=self.inputs)
            return cut
        return Taken(cut, [below + int((inside < cut.value).sum()) for below, inside in counted])

    def _each(self) -> Iterable[tuple[Tensor, Sequence[Tensor]]]:
        return zip(self.weights, self.inputs, strict=True)

    def _bounded_by_squares(self, low: float, high: float) -> bool:
        return self.are_curvatures and curvature.can_bound(low, high, [correction for _, correction in self.inputs])

    def _count(self, band: Band, room: int, weight: Tensor, *beside: Tensor) -> tuple[int, Tensor] | None:
        """How many lie below the band, and those inside; None where these are more than there is room for."""
        below, inside = 0, [weight.new_empty(0)]
        bounds = curvature.bounds(*band, beside[1]) if self._bounded_by_squares(*band) else None
        for piece in chunks(weight, *beside):
            if bounds is not None:
                under, w, v = curvature.count_below(*bounds, *piece[:2])
                below, piece = below + under, (w, v, piece[2])
                if len(w) == 0:
                    continue
            found = _split(self.score(*piece), band, room)
            if found is None:
                return None
            below, room = below + found[0], room - len(found[1])
            inside.append(found[1])
        return below, torch.cat(inside)


def _split(scores: Tensor, band: Band, room: int) -> tuple[int, Tensor] | None:
    """How many lie below the band, and those inside, if there is room for them."""
    under, up_to = scores < band[0], scores < band[1]
    below = int(under.count_nonzero())
    found = int(up_to.count_nonzero()) - below
    if found > room:
        return None
    return below, scores[up_to.logical_xor_(under)] if found else scores.new_empty(0)


def _cut_among(scores: Tensor, k: int, below: int) -> Cut | None:
    """The cut under which k scores lie, if it is one of these, which `below` scores lie under, and above zero."""
    if not 0 <= k - below < scores.numel():
        return None
    cut = find_cut(lambda: [scores], k - below, dtype=scores.dtype)
    # Under zero there is nothing to zero, and zeros are more than k.
    return Cut(value=cut.value, below=below + cut.below, ties=cut.ties) if cut.value > 0 else None
