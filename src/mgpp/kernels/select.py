"""Exact selection without a copy and without waiting for the device. Twin: mgpp.functional.select.zero_smallest_.

An event is a fixed row of launches (`select_kernels` up to the cut, `zero_kernels` from there on):

    aim     (only when the target has moved) find the cut of a sample, and put a window of keys around it
    count   one read of the weights: how many keys lie below the window, how many below the floor, which is far under
            it, and a counter for every key inside
    again   (only when the target stands still and the cut was not in the window) count 128 keys a counter in a wider
            window around the same place, put the window around those that hold the cut, and count once more
    digits  (only when the cut is still not found) radix select over all, eight bits a pass
    mask    one read, one write: zero what lies below the cut, count each tensor's zeros and each chunk's ties
    ties    (only when some of the keys equal to the cut must go; never all) zero the first of them

After the ramp the target stands still and the cut hardly moves, so the window around the last one holds the next: two
reads and one write. Where it moves more (by curvature, several percent a step), it is most often because the last
event's k zeros have barely grown since, and the cut, the smallest score of what was kept, lies alone, far above them.
Then any number between is as good: if k keys lie below the floor, which is put amid the last event's two sides, those
go. If some have grown past it, the wider window holds the cut. A sample's cut would not: it lies anywhere around the
gap. (16-bit keys have no counters in memory, so neither floor nor wider window: there the sample aims again.) What is
not needed is launched all the same and returns at once, since only the device knows; a row never changes, so it is
recorded in a CUDA graph.
"""

import struct
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mgpp.functional.select import Cut
from mgpp.kernels.arriving import Arriving, is_capturing
from mgpp.kernels.layout import Group, Layout
from mgpp.kernels.recorded import Recorded
from mgpp.kernels.select_kernels import (
    CUT,
    CUT_BELOW,
    PARTS,
    SLOTS,
    TIES,
    clear_kernel,
    count_kernel,
    digit_kernel,
    resolve_digit_kernel,
    resolve_kernel,
    sample_kernel,
)
from mgpp.kernels.table import BLOCK, LEAST_CHUNK, MOST_CHUNKS, OFTEN, SELDOM, TRITON, span_of
from mgpp.kernels.zero_kernels import forget_kernel, mask_kernel, scan_kernel, ties_kernel

WINDOW = MOST_CHUNKS  # keys, 0.8% of a float32 cut's value: 512 KiB, which later count each chunk's ties
COARSE = (
    7  # bits: a counter for 128 keys makes the window an octave wide, a quarter of the cut's value or more each way
)
NARROW = 6  # keys of a 16-bit float, 2% to 5% of its value: too many share a key there, they are counted in registers
SAMPLE, RUN = 256, 8  # scores of every chunk, so many side by side, since that many come from memory together

# How many bits a digit has, and from which bit on each: of all keys, and of the sample's, which says no more than a few
# digits do. Of float32's sample the last 15 are guessed, of 16-bit ones none, since their window is so narrow.
DIGITS = {0: (8, (24, 16, 8, 0)), 13: (8, (16, 8, 0)), 16: (8, (8, 0))}
AIM_DIGITS = {0: (8, (23, 15)), 13: (9, (9, 0)), 16: (8, (8, 0))}
HISTOGRAMS = 1024  # counters for either

# A 16-bit float read as float32 has that many low bits at zero: without them its keys are dense.
LOW_BITS = {torch.float32: 0, torch.float16: 13, torch.bfloat16: 16}


class Selection:
    """What selecting over these tensors keeps between events: under 1 MiB, and only to be fast.

    The layout's roles: the weights that are masked, and the two that their scores are computed from (for "magnitude"
    the weights again).
    """

    def __init__(self, layout: Layout, score: str = "magnitude") -> None:
        device = layout.device
        self.layout, self.score = layout, score
        self.total = sum(layout.sizes)
        # Not one stretch of them: neighbours share a row, and a row's gradients their scale.
        apart = layout.chunk // SAMPLE * RUN
        parts = [min(layout.chunk, size - start) for size in layout.sizes for start in range(0, size, layout.chunk)]
        self.sampled = sum(part // apart * RUN + min(part % apart, RUN) for part in parts)
        # Only magnitudes have the weights' few bits: a product of two 16-bit floats fills 32.
        dtypes = {group.dtypes[0] for group in layout.groups}
        self.shift = LOW_BITS[dtypes.pop()] if score == "magnitude" and len(dtypes) == 1 else 0
        self.narrow = self.shift > 0
        self.width = NARROW if self.narrow else WINDOW
        self.window = torch.zeros(WINDOW, dtype=torch.int64, device=device)
        self.low = torch.zeros(2, dtype=torch.int64, device=device)  # where the window begins, and the floor
        # The selection's state and each tensor's zeros, which are told; the aim's; histograms of either; the window's
        # parts.
        lengths = SLOTS, len(layout.sizes), SLOTS, HISTOGRAMS, HISTOGRAMS, PARTS
        self.counters = torch.zeros(sum(lengths), dtype=torch.int64, device=device)
        self.told = torch.zeros(sum(lengths[:2]), dtype=torch.int64, device=device)
        self.state, self.zeros, self.aim, self.digits, self.sample, self.parts = self.counters.split(lengths)
        self.factors = [torch.ones(len(group.indices), dtype=torch.float32, device=device) for group in layout.groups]
        self.target = torch.zeros(1, dtype=torch.int64, device=device)  # k
        self.aimed_at: int | None = None
        self.holds_count = False  # of a step whose event has not come yet
        self.recorded = Recorded(device)

    def set_factors(self, factors: float | Tensor) -> None:
        """One for all tensors, or one for each."""
        for group, mine in zip(self.layout.groups, self.factors, strict=True):
            if isinstance(factors, Tensor):
                alone = len(self.factors) == 1
                mine.copy_(factors if alone else factors[group.number.to(factors.device)], non_blocking=True)
            else:
                mine.fill_(factors)

    def forget_count(self) -> None:
        """Make ready for a count."""
        self.counters.zero_()
        self.window.zero_()
        self.holds_count = False


def selection_for(layout: Layout, score: str, scratch: dict[str, Any]) -> Selection:
    """The selection over these tensors, made once and kept in `scratch`."""
    known: Selection | None = scratch.get("selection")
    if known is None or known.layout is not layout or known.score != score:
        known = scratch["selection"] = Selection(layout, score)
    return known


class Outcome:
    """An event's numbers, on their way from the device: asking for them waits, `ready` does not."""

    def __init__(self, selection: Selection) -> None:
        self._shift = selection.shift
        self._numbers = Arriving(selection.told)

    def ready(self) -> bool:
        return self._numbers.ready()

    def cut(self) -> Cut:
        numbers = self._numbers.get()
        bits = (numbers[CUT] << self._shift) & 0x7FFFFFFF
        (value,) = struct.unpack("f", struct.pack("i", bits))
        return Cut(value=value, below=numbers[CUT_BELOW], ties=numbers[TIES])

    def zeros(self) -> list[int]:
        return self._numbers.get()[SLOTS:]


def zero_smallest_(
    selection: Selection, k: int, *, factors: float | Tensor | None = None, counted: bool = False
) -> Outcome | None:
    """Zero the k weights of smallest score, ties by position. `counted`: another kernel has filled the window.

    In a CUDA graph that is being recorded there is no outcome yet, and no replay will tell one.
    """
    if not 0 <= k < selection.total:
        raise ValueError(f"k={k}: between 0 and {selection.total - 1}, so that one score at least stays")
    event = _Event(selection)
    if factors is not None:
        selection.set_factors(factors)
    moved = selection.aimed_at != k
    if moved:
        selection.target.fill_(k)
        selection.aimed_at = k
        counted = False  # that was around another target's cut
    if selection.holds_count and not counted:
        selection.forget_count()
    selection.holds_count = False
    selection.recorded.run((moved, counted), partial(event, moved=moved, counted=counted))
    return None if is_capturing() else Outcome(selection)


class _Event:
    """The launches of one event."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection

    def _groups(self, *roles: int) -> Iterator[tuple[Group, tuple]]:
        """Every group, with the arguments that all launches begin with."""
        for group, factors in zip(self.selection.layout.groups, self.selection.factors, strict=True):
            table = group.table
            addresses = [group.addresses[role] for role in roles]
            yield group, (*addresses, factors, table.sizes, table.first_chunk, len(group.indices), table.chunks)

    def _constants(self, group: Group, **more: object) -> dict[str, object]:
        first, second = (TRITON[dtype] for dtype in group.dtypes[1:])
        return {
            "FIRST": first, "SECOND": second, "SCORE": self.selection.score, "SHIFT": self.selection.shift,
            "CHUNK": self.selection.layout.chunk, "BLOCK": BLOCK, **more,
        }  # fmt: skip

    def __call__(self, *, moved: bool, counted: bool) -> None:
        own = self.selection
        if moved:
            self._digits(aim=True)
        if not counted:
            self._count()
        self._resolve()
        if not moved:
            self._count_again()
        self._digits(aim=False)
        self._mask()
        forget_kernel[(16,)](
            own.counters, own.told, own.window,
            COUNTERS=len(own.counters), TOLD=len(own.told), WINDOW=WINDOW, BLOCK=1024,
        )  # fmt: skip

    def _count_again(self) -> None:
        if self.selection.narrow:
            self._digits(aim=True)
        else:
            self._clear()
            self._count(again=True, coarse=COARSE)
            self._resolve(coarse=COARSE)
        self._clear()
        self._count(again=True)
        self._resolve()

    def _clear(self) -> None:
        clear_kernel[(16,)](self.selection.state, self.selection.window, WIDTH=WINDOW, BLOCK=1024)

    def _count(self, *, again: bool = False, coarse: int = 0) -> None:
        own = self.selection
        for group, arguments in self._groups(1, 2):
            count_kernel[(group.table.programs(SELDOM if again else OFTEN),)](
                *arguments, own.state, own.low, own.window,
                **self._constants(
                    group, AGAIN=again, COARSE=coarse, WINDOW=WINDOW, NARROW=own.narrow, SPAN=span_of(group.table)
                ),
            )  # fmt: skip

    def _resolve(self, *, coarse: int = 0) -> None:
        own = self.selection
        block = max(1024, own.width // PARTS)
        resolve_kernel[(-(-own.width // block),)](
            own.state, own.aim, own.low, own.window, own.parts, own.target,
            WIDTH=own.width, COARSE=coarse, BLOCK=block,
        )  # fmt: skip

    def _digits(self, *, aim: bool) -> None:
        own = self.selection
        state, histograms = (own.aim, own.sample) if aim else (own.state, own.digits)
        bits, offsets = (AIM_DIGITS if aim else DIGITS)[own.shift]
        for turn, (offset, digits) in enumerate(zip(offsets, histograms.split(1 << bits), strict=False)):
            for group, arguments in self._groups(1, 2):
                arguments = *arguments, state, digits, offset
                constants = self._constants(group, TOP=turn == 0, BITS=bits)
                if aim:
                    sample_kernel[(group.table.programs(SELDOM),)](*arguments, **constants, SAMPLE=SAMPLE, RUN=RUN)
                else:
                    digit_kernel[(group.table.programs(SELDOM),)](*arguments, **{**constants, "BLOCK": 2 * BLOCK})
            resolve_digit_kernel[(1,)](
                state, own.low, digits, own.target, own.sampled if aim else 1, own.total if aim else 1,
                TOP=turn == 0, LAST=offset == offsets[-1], AIM=own.width * aim, REST=offset, BITS=bits,
            )  # fmt: skip

    def _mask(self) -> None:
        own = self.selection
        self._zero(mask_kernel)
        scan_kernel[(1,)](
            own.state, own.low, own.window, own.layout.chunks,
            WIDTH=own.width, FLOOR=not own.narrow, BLOCK=LEAST_CHUNK, num_warps=16,
        )  # fmt: skip
        self._zero(ties_kernel, SELDOM // 2, BLOCK=LEAST_CHUNK // 2, num_warps=8)  # most often in one chunk, at once

    def _zero(self, kernel: Any, programs: int = OFTEN, **more: int) -> None:
        own = self.selection
        for group, arguments in self._groups(0, 1, 2):
            kernel[(group.table.programs(programs),)](
                *arguments, group.number, group.base, own.state, own.zeros, own.window,
                **{**self._constants(group, WEIGHT=TRITON[group.dtypes[0]]), **more},
            )  # fmt: skip
