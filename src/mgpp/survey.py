"""Looks at a sample of the weights, some hundred times in a run: how large they are, how many of them lie in the
prior's spike, and how many that were zero at the last look have come back.

A sample, because all weights would cost a pass (a look at MiniLM's 10.6M takes 1.5 ms on one core), and because who has
come back can only be told by remembering who was gone: 64 KiB for the sample, not a mask for every weight.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mgpp.functional.ranks import ALONE, Ranks
from mgpp.kernels import Arriving
from mgpp.methods.ramp import Schedule

SAMPLE = 1 << 16
# Sizes are counted in eighths of an octave, from 2^-24 (6e-8) to 2^4; what lies beyond goes into the outermost.
PER_OCTAVE, LOWEST, BINS = 8, -24, 28 * 8


class Survey:
    """Of a run that prunes by `schedule`: about `looks` looks, spread over the time before its events and over them."""

    def __init__(self, sizes: Sequence[int], schedule: Schedule, looks: int) -> None:
        if looks < 1:
            raise ValueError(f"looks={looks}: at least 1, or leave the survey out with looks=0")
        self.steps = steps_to_look_at(schedule, looks)
        self.stride = stride_for(sum(sizes))
        self.sizes = sizes
        self.starts: Sequence[int] = [0] * len(sizes)
        self.ranks = ALONE
        self._was_zero: Tensor | None = None

    @property
    def sample_size(self) -> int:
        return -(-sum(self.sizes) // self.stride)

    def of_parts(self, starts: Sequence[int], ranks: Ranks) -> None:
        """This process has only a part of each weight, from there on; those of all ranks are sampled as one."""
        self.starts, self.ranks = starts, ranks

    def begin(self, t: int, weights: Sequence[Tensor], half_width: float | None) -> "Look | None":
        """The look that is due at step t, if one is; to be ended when the step's event, if there is one, has pruned."""
        return Look(self, weights, half_width) if t in self.steps else None

    def sample(self, weights: Sequence[Tensor]) -> Tensor:
        """|w| of every `stride`-th weight, counted over all tensors, as one tensor in float32."""
        taken = []
        for weight, before in zip(weights, self._before(), strict=True):
            weight, first, size = weight.detach(), -before % self.stride, weight.numel()
            if weight.is_contiguous():
                taken.append(weight.view(-1)[first :: self.stride])
            else:  # to flatten it would copy all of it
                places = torch.arange(min(first, size), size, self.stride, device=weight.device)
                taken.append(weight.take(places))
        return torch.cat([part.to(taken[0].device, torch.float32) for part in taken]).abs_()

    def _before(self) -> list[int]:
        """How many weights there are before each one that is held here, over all tensors."""
        ends = itertools.accumulate(self.sizes, initial=0)
        return [end + start for end, start in zip(ends, self.starts, strict=False)]

    def remember(self, is_zero: Tensor) -> Tensor | None:
        was_zero, self._was_zero = self._was_zero, is_zero
        return was_zero

    def state_dict(self, weights: Sequence[Tensor]) -> dict[str, Tensor]:
        """Of the whole sample: all processes call it that share the weights."""
        if self._was_zero is None:
            return {}
        whole = torch.zeros(self.sample_size, dtype=torch.int64)
        whole[self._places(weights)] = self._was_zero.to(whole)
        self.ranks.sum_(whole)
        return {"was_zero": whole.bool()}

    def load_state_dict(self, state: dict[str, Tensor], weights: Sequence[Tensor]) -> None:
        if "was_zero" not in state:
            self._was_zero = None
            return
        self._was_zero = state["was_zero"].cpu()[self._places(weights)].to(weights[0].device)

    def _places(self, weights: Sequence[Tensor]) -> Tensor:
        """Which of the whole sample are held here."""
        parts = [
            torch.arange(-(-before // self.stride), -(-(before + weight.numel()) // self.stride))
            for weight, before in zip(weights, self._before(), strict=True)
        ]
        return torch.cat(parts)


class Look:
    """One look. On a GPU its numbers travel to the host while the device goes on."""

    def __init__(self, survey: Survey, weights: Sequence[Tensor], half_width: float | None) -> None:
        self._survey, self._weights, self._half_width = survey, weights, half_width
        before = survey.sample(weights)  # counted now, so that none of it is kept during the event
        self._sizes, self._in_spike = count_sizes(before), torch.count_nonzero(before < (half_width or 0.0))
        self._numbers: Arriving | None = None

    def end(self) -> None:
        after = self._survey.sample(self._weights)
        sizes = [self._sizes, count_sizes(after)]
        is_zero = after == 0
        was_zero = self._survey.remember(is_zero)
        gone = torch.zeros_like(is_zero) if was_zero is None else was_zero
        width = self._half_width or 0.0
        count = torch.count_nonzero  # a sum would take eight bytes for each on a CPU
        counts = [
            *(count(gone & ~is_zero), count(gone)),
            *(self._in_spike, count(torch.ones_like(gone))),
            *(count(~is_zero & (after < width)), count(~is_zero)),
        ]
        numbers = torch.cat([torch.stack(counts), *sizes])
        self._survey.ranks.sum_(numbers)
        self._numbers = Arriving(numbers)
        del self._weights

    def ready(self) -> bool:
        return self._numbers is None or self._numbers.ready()

    def told(self) -> dict[str, Any]:
        """Shares: what came back of those that were gone; what lies in the spike, of all weights before the event and
        of those left after it. And how many are how large before it and after it; zeros have no size."""
        assert self._numbers is not None
        numbers = self._numbers.get()
        names = ("came_back", "in_spike", "left_in_spike")[: 1 if self._half_width is None else 3]
        counted = {name: numbers[2 * i : 2 * i + 2] for i, name in enumerate(names)}
        told = {name: part / whole for name, (part, whole) in counted.items() if whole}
        return {**told, "sizes": _trimmed(numbers[6 : 6 + BINS], numbers[6 + BINS :])}


def count_sizes(sizes: Tensor) -> Tensor:
    """How many of the sizes that are not zero lie in each of BINS intervals."""
    counts = torch.zeros(BINS, dtype=torch.int64, device=sizes.device)
    for part in sizes.split(SAMPLE // 4):  # places take eight bytes each
        octave = torch.nan_to_num(part.log2(), neginf=LOWEST).clamp_(LOWEST, LOWEST + BINS / PER_OCTAVE)
        place = octave.sub_(LOWEST).mul_(PER_OCTAVE).long().clamp_(max=BINS - 1)
        counts.scatter_add_(0, place, (part != 0).long())  # bincount would wait for the device
    return counts


def _trimmed(before: list[int], after: list[int]) -> dict[str, Any]:
    """Without the empty intervals at both ends; `log2` is where the first one left begins."""
    filled = [i for i, (b, a) in enumerate(zip(before, after, strict=True)) if b or a] or [0]
    first, end = filled[0], filled[-1] + 1
    return {
        "log2": LOWEST + first / PER_OCTAVE,
        "per_octave": PER_OCTAVE,
        "before": before[first:end],
        "after": after[first:end],
    }


def steps_to_look_at(schedule: Schedule, looks: int) -> frozenset[int]:
    """The first event in each of `looks` equal parts of the run, and the last of all; of a part before the first event,
    its first step."""
    slot = max(1, schedule.last // looks)
    events = [t for t in range(1, schedule.last + 1) if schedule.is_event(t)]
    first_of: dict[int, int] = {}
    for t in events:
        first_of.setdefault(t // slot, t)
    return frozenset({*first_of.values(), *events[-1:], *range(slot, events[0] if events else 0, slot)})


def stride_for(num_weights: int) -> int:
    """So that at most SAMPLE weights are taken; coprime to the usual widths, so that it walks over all columns."""
    stride = -(-num_weights // SAMPLE)
    while stride > 1 and any(stride % prime == 0 for prime in (2, 3, 5, 7, 11, 13)):
        stride += 1
    return stride
