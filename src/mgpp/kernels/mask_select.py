"""The lowest scores leave their masks, of each tensor by itself or of all together, without a copy and without a wait.

Twins: mgpp.functional.mask.mask_smallest_ and mask_smallest_of_each_, with mgpp.functional.learned.learned_score.
Scores that are learned have both signs and jump about from step to step, so nothing is predicted: four passes find the
cut digit by digit, of all sets of tensors at once, one writes the masks, and one more tells ties apart where some stay.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from mgpp.functional.select import Cut
from mgpp.kernels.arriving import Arriving, is_capturing
from mgpp.kernels.layout import Group, Layout
from mgpp.kernels.mask_select_kernels import (
    DIGITS,
    LARGEST,
    PREFIX,
    SLOTS,
    digit_kernel,
    mask_kernel,
    resolve_kernel,
    scan_kernel,
    ties_kernel,
)
from mgpp.kernels.recorded import Recorded
from mgpp.kernels.table import BLOCK, READABLE


class MaskSelection:
    """What selecting over these tensors keeps between events. The layout's roles: masks, latents and scores."""

    def __init__(self, layout: Layout, *, together: bool) -> None:
        device, count = layout.device, len(layout.sizes)
        self.layout, self.together = layout, together
        self.sizes = [sum(layout.sizes)] if together else layout.sizes
        sets = [0] * count if together else list(range(count))
        self.set_of = [
            torch.tensor([sets[i] for i in group.indices], dtype=torch.int32, device=device) for group in layout.groups
        ]
        chunks_of = [-(-size // layout.chunk) for size in layout.sizes]
        ends = [layout.chunks] if together else [sum(chunks_of[: i + 1]) for i in range(count)]
        self.first_chunk_of_set = torch.tensor([0, *ends], dtype=torch.int32, device=device)
        self.ties_of_chunk = torch.zeros(max(1, layout.chunks), dtype=torch.int32, device=device)
        # The sets' states and each tensor's zeros are told together.
        told = SLOTS * len(self.sizes) + count
        self.counters = torch.zeros(told, dtype=torch.int64, device=device)
        self.states, self.zeros = self.counters[: told - count], self.counters[told - count :]
        self.digits = torch.zeros(DIGITS * len(self.sizes), dtype=torch.int64, device=device)
        self.told: tuple[str, list[list[int]]] = ("", [])
        self.recorded = Recorded(device)

    def aim(self, targets: Sequence[int]) -> None:
        """How many of each set are to go."""
        self._tell("lowest", [[target, size, 0] for target, size in zip(targets, self.sizes, strict=True)])

    def aim_at_cut(self, value: float) -> None:
        self._tell("at cut", [[0, size, key_of(value)] for size in self.sizes])

    def _tell(self, kind: str, rows: list[list[int]]) -> None:
        """Sent to the device where it has changed, and nobody waits for it. The rest of a state is 0: no ties."""
        if (kind, rows) == self.told:
            return
        self._sent = torch.tensor([row + [0] * (SLOTS - 3) for row in rows], dtype=torch.int64).flatten()
        if self.states.is_cuda:
            self._sent = self._sent.pin_memory()
        self.states.copy_(self._sent, non_blocking=True)
        self.told = (kind, rows)

    def _groups(self, *roles: int) -> Iterator[tuple[Group, tuple, dict[str, Any]]]:
        """Every group, with the arguments and constants that its launches share."""
        for group, set_of in zip(self.layout.groups, self.set_of, strict=True):
            table = group.table
            addresses = [group.addresses[role] for role in roles]
            arguments = (*addresses, table.sizes, table.first_chunk, len(group.indices), table.chunks, set_of)
            latent, score = (READABLE[dtype] for dtype in group.dtypes[1:])
            yield group, arguments, {"LATENT": latent, "SCORE": score, "CHUNK": self.layout.chunk}

    def launch(self) -> None:
        self.zeros.zero_()
        for offset in (24, 16, 8, 0):
            for group, arguments, constants in self._groups(1, 2):
                digit_kernel[(group.table.programs(4),)](
                    *arguments, self.states, self.digits, offset, TOP=offset == 24, BLOCK=2 * BLOCK, **constants
                )
            resolve_kernel[(len(self.sizes),)](self.states, self.digits, TOP=offset == 24, LAST=offset == 0)
        self._mask(mark=True)
        scan_kernel[(len(self.sizes),)](self.states, self.first_chunk_of_set, self.ties_of_chunk, BLOCK=1024)
        for group, arguments, constants in self._groups(0, 1, 2):
            ties_kernel[(group.table.programs(),)](
                *arguments, group.number, group.base, self.states, self.zeros, self.ties_of_chunk,
                BLOCK=BLOCK, **constants,
            )  # fmt: skip

    def launch_at_cut(self) -> None:
        """The cut is known: mask what is not above it."""
        self.zeros.zero_()
        self._mask(mark=False)

    def _mask(self, *, mark: bool) -> None:
        for group, arguments, constants in self._groups(0, 1, 2):
            mask_kernel[(group.table.programs(),)](
                *arguments, group.number, group.base, self.states, self.zeros, self.ties_of_chunk,
                MARK=mark, BLOCK=BLOCK, **constants,
            )  # fmt: skip


class Outcome:
    """An event's numbers, on their way from the device. The cut is the lowest of the sets' cuts."""

    def __init__(self, selection: MaskSelection) -> None:
        self._asked = [(target, size) for target, size, _ in selection.told[1]]
        self._numbers = Arriving(selection.counters)

    def ready(self) -> bool:
        return self._numbers.ready()

    def cut(self) -> Cut:
        numbers = self._numbers.get()
        cuts = [numbers[SLOTS * i + PREFIX] for i, (target, size) in enumerate(self._asked) if target < size]
        below = sum(target for target, _ in self._asked)
        return Cut(value=value_of(min(cuts, default=LARGEST)), below=below, ties=0)

    def zeros(self) -> list[int]:
        return self._numbers.get()[SLOTS * len(self._asked) :]


def key_of(value: float) -> int:
    (bits,) = struct.unpack("i", struct.pack("f", value + 0.0))
    return bits if bits >= 0 else bits ^ LARGEST


def value_of(key: int) -> float:
    (value,) = struct.unpack("f", struct.pack("i", key if key >= 0 else key ^ LARGEST))
    return value


def mask_smallest_(
    layout: Layout, targets: Sequence[int], *, together: bool, scratch: dict[str, Any]
) -> Outcome | None:
    """The lowest leave the masks, as many as `targets` says: one number for each tensor, or one for all together.

    In a CUDA graph that is being recorded there is no outcome yet, and no replay will tell one.
    """
    selection = _selection_for(layout, together, scratch)
    selection.aim(targets)
    selection.recorded.run("lowest", selection.launch)
    return None if is_capturing() else Outcome(selection)


def mask_up_to_(layout: Layout, value: float, *, scratch: dict[str, Any]) -> Outcome | None:
    """All scores up to `value` leave the masks, however many they are: the outcome's cut counts none."""
    selection = _selection_for(layout, True, scratch)
    selection.aim_at_cut(value)
    selection.recorded.run("at cut", selection.launch_at_cut)
    return None if is_capturing() else Outcome(selection)


def _selection_for(layout: Layout, together: bool, scratch: dict[str, Any]) -> MaskSelection:
    known: MaskSelection | None = scratch.get("mask selection")
    if known is None or known.layout is not layout or known.together != together:
        known = scratch["mask selection"] = MaskSelection(layout, together=together)
    return known
