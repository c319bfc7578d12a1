"""Exact selection without a copy and without waiting for the device. Twin: mgpp.functional.select.zero_smallest_.

An event is a fixed row of launches (`select_kernels`):

    aim     (only when the target has moved) find the cut of a sample, and put a window of keys around it
    count   one read of the weights: how many keys lie below the window, and a counter for every key inside
    digits  (only when the cut was not in the window) radix select over all, eight bits a pass
    mask    one read, one write: zero what lies below the cut, count each tensor's zeros and each chunk's ties
    ties    (only when some but not all keys equal to the cut must go) zero the first of them

After the ramp the target stands still and the cut hardly moves, so the window around the last one holds the next: two
reads and one write. What is not needed is launched all the same and returns at once, since only the device knows; the
row never changes, so it is recorded in a CUDA graph.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mgpp.functional.select import Cut
from mgpp.kernels.arriving import Arriving, is_capturing
from mgpp.kernels.dtypes import TRITON, by_dtype
from mgpp.kernels.recorded import Recorded
from mgpp.kernels.select_kernels import (
    CUT,
    CUT_BELOW,
    DIGITS,
    SLOTS,
    TIES,
    count_kernel,
    digit_kernel,
    mask_kernel,
    resolve_digit_kernel,
    resolve_kernel,
    scan_kernel,
    ties_kernel,
)
from mgpp.kernels.table import BLOCK, MOST_CHUNKS, Table, span_of

WINDOW = MOST_CHUNKS  # keys, 0.8% of a float32 cut's value: 512 KiB, which later count each chunk's ties
NARROW = 6  # keys of a 16-bit float, 2% to 5% of its value: too many share a key there, they are counted in registers
SAMPLE = 128  # scores of every chunk

# A 16-bit float read as float32 has that many low bits at zero: without them its keys are dense.
LOW_BITS = {torch.float32: 0, torch.float16: 13, torch.bfloat16: 16}


@dataclass(frozen=True)
class Group:
    """The tensors of the same dtypes: one launch serves them."""

    indices: list[int]
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype]
    table: Table
    number: Tensor  # each one's place among all tensors
    base: Tensor  # each one's first chunk among all chunks
    factors: Tensor  # each one's, for scores that have one


class Selection:
    """What selecting over these tensors keeps between events: under 1 MiB, and only to be fast."""

    def __init__(self, weights: Sequence[Tensor], first: Sequence[Tensor], second: Sequence[Tensor]) -> None:
        device = weights[0].device
        whole = Table([weight.numel() for weight in weights], device)
        self.chunks, self.chunk = whole.chunks, whole.chunk
        self.groups = []
        for dtypes, indices in by_dtype(weights, first, second).items():
            table = Table([weights[i].numel() for i in indices], device, chunk=whole.chunk)
            number = torch.tensor(indices, dtype=torch.int32, device=device)
            base = whole.first_chunk[torch.tensor(indices, device=device)]
            factors = torch.ones(len(indices), dtype=torch.float32, device=device)
            self.groups.append(Group(indices, (dtypes[0], dtypes[1], dtypes[2]), table, number, base, factors))
        scores = {group.dtypes[1:] for group in self.groups}
        alike = len(scores) == 1 and first[0] is weights[0]
        self.shift = LOW_BITS[self.groups[0].dtypes[0]] if alike else 0
        self.narrow = self.shift > 0
        self.width = NARROW if self.narrow else WINDOW
        self.sampled = sum(
            min(SAMPLE, size - start) for size in whole.sizes_on_host for start in range(0, size, whole.chunk)
        )
        self.window = torch.zeros(WINDOW, dtype=torch.int64, device=device)
        self.low = torch.zeros(1, dtype=torch.int64, device=device)
        # Two states (the selection's, the aim's), a histogram for each pass of both, and each tensor's zeros.
        self.counters = torch.zeros(2 * SLOTS + 8 * DIGITS + len(weights), dtype=torch.int64, device=device)
        self.target = torch.zeros(2, dtype=torch.int64, device=device)  # k, and the sample's
        self.aimed_at: int | None = None
        self.recorded = Recorded(device)

    def set_factors(self, factors: float | Tensor) -> None:
        """One for all tensors, or one for each."""
        for group in self.groups:
            if isinstance(factors, Tensor):
                mine = factors if len(self.groups) == 1 else factors[group.number.to(factors.device)]
                group.factors.copy_(mine, non_blocking=True)
            else:
                group.factors.fill_(factors)

    def forget_count(self) -> None:
        """Make ready for a count."""
        self.counters.zero_()
        self.window.zero_()

    @property
    def state(self) -> Tensor:
        return self.counters[:SLOTS]

    @property
    def zeros(self) -> Tensor:
        return self.counters[2 * SLOTS + 8 * DIGITS :]


def selection_for(
    weights: Sequence[Tensor], first: Sequence[Tensor], second: Sequence[Tensor], scratch: dict[str, Any]
) -> Selection:
    """The selection over these tensors, made once and kept in `scratch`."""
    lists = (weights, first, second)
    shape = [tuple((tensor.numel(), tensor.dtype, tensor.device) for tensor in tensors) for tensors in lists]
    known = scratch.get("selection")
    if known is None or known[0] != shape:
        known = scratch["selection"] = (shape, Selection(weights, first, second))
    selection: Selection = known[1]
    return selection


class Outcome:
    """An event's numbers, on their way from the device: asking for them waits, `ready` does not."""

    def __init__(self, selection: Selection, tensors: int) -> None:
        self._shift, self._tensors = selection.shift, tensors
        self._numbers = Arriving(selection.counters)

    def ready(self) -> bool:
        return self._numbers.ready()

    def cut(self) -> Cut:
        numbers = self._numbers.get()
        key = (int(numbers[CUT]) << self._shift) & 0x7FFFFFFF
        value = float(torch.tensor(key, dtype=torch.int32).view(torch.float32))
        return Cut(value=value, below=int(numbers[CUT_BELOW]), ties=int(numbers[TIES]))

    def zeros(self) -> list[int]:
        return self._numbers.get()[-self._tensors :].tolist()


def zero_smallest_(
    selection: Selection,
    weights: Sequence[Tensor],
    k: int,
    *,
    score: str = "magnitude",
    first: Sequence[Tensor] | None = None,
    second: Sequence[Tensor] | None = None,
    factors: float | Tensor | None = None,
    counted: bool = False,
) -> Outcome | None:
    """Zero the k weights of smallest score, ties by position. `counted`: another kernel has filled the window.

    In a CUDA graph that is being recorded there is no outcome yet, and no replay will tell one.
    """
    event = _Event(selection, (weights, first or weights, second or weights), score)
    if factors is not None:
        selection.set_factors(factors)
    aim = selection.aimed_at != k
    if aim:
        total = sum(weight.numel() for weight in weights)
        selection.target[0].fill_(k)
        selection.target[1].fill_(k * selection.sampled // total)
        selection.aimed_at = k
    if not counted:
        selection.recorded.run((score, "count", aim), partial(event.count, aim=aim))
    selection.recorded.run((score, "mask"), event.mask)
    outcome = None if is_capturing() else Outcome(selection, len(weights))
    selection.forget_count()
    return outcome


class _Event:
    """The launches of one event over these tensors."""

    def __init__(self, selection: Selection, lists: Sequence[Sequence[Tensor]], score: str) -> None:
        self.selection, self.score = selection, score
        # Also where a recorded row will be replayed: it reads the addresses from where they are put here.
        self._addresses = [
            [group.table.addresses(str(role), [of[i] for i in group.indices]) for role, of in enumerate(lists)]
            for group in selection.groups
        ]

    def _groups(self, *roles: int) -> Iterator[tuple[Group, tuple]]:
        """Every group, with the arguments that all launches begin with."""
        for group, addresses in zip(self.selection.groups, self._addresses, strict=True):
            table = group.table
            tables = [addresses[role] for role in roles]
            yield group, (*tables, group.factors, table.sizes, table.first_chunk, len(group.indices), table.chunks)

    def _constants(self, group: Group, **more: object) -> dict[str, object]:
        first, second = (TRITON[dtype] for dtype in group.dtypes[1:])
        return {
            "FIRST": first, "SECOND": second, "SCORE": self.score, "SHIFT": self.selection.shift,
            "CHUNK": self.selection.chunk, "BLOCK": BLOCK, **more,
        }  # fmt: skip

    def count(self, *, aim: bool) -> None:
        own = self.selection
        if aim:
            self._digits(aim=True)
        for group, arguments in self._groups(1, 2):
            count_kernel[(group.table.programs(),)](
                *arguments, own.state, own.low, own.window,
                **self._constants(group, WINDOW=WINDOW, NARROW=own.narrow, SPAN=span_of(group.table)),
            )  # fmt: skip

    def _digits(self, *, aim: bool) -> None:
        own = self.selection
        state = own.counters[SLOTS : 2 * SLOTS] if aim else own.state
        offsets = range(24 if own.shift == 0 else 8 if own.shift == 16 else 16, -1, -8)
        for turn, offset in enumerate(offsets):
            start = 2 * SLOTS + DIGITS * (turn + 4 * aim)
            digits = own.counters[start : start + DIGITS]
            for group, arguments in self._groups(1, 2):
                digit_kernel[(group.table.programs(4),)](
                    *arguments, state, digits, offset,
                    **self._constants(group, TOP=turn == 0, SAMPLE=SAMPLE * aim, BLOCK=SAMPLE if aim else 2 * BLOCK),
                )  # fmt: skip
            resolve_digit_kernel[(1,)](
                state, own.low, digits, own.target[aim:], TOP=turn == 0, LAST=offset == 0, AIM=own.width * aim
            )

    def mask(self) -> None:
        """All that follows the count."""
        own = self.selection
        resolve_kernel[(1,)](own.state, own.low, own.window, own.target, WIDTH=own.width, BLOCK=4096)
        self._digits(aim=False)
        for kernel in (mask_kernel, ties_kernel):
            for group, arguments in self._groups(0, 1, 2):
                kernel[(group.table.programs(),)](
                    *arguments, group.number, group.base, own.state, own.zeros, own.window,
                    **self._constants(group, WEIGHT=TRITON[group.dtypes[0]]),
                )  # fmt: skip
            if kernel is mask_kernel:
                scan_kernel[(1,)](own.state, own.low, own.window, own.chunks, WIDTH=own.width, BLOCK=4096)
