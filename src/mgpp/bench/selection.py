"""Selecting and masking the smallest of many weights: time and memory, against what torch offers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mgpp import kernels
from mgpp.bench.naive import cut_of
from mgpp.bench.timing import Tell, peak_bytes, release, silent, table_row, take_turns

SPARSITY = 0.9
SPREAD = 0.05
CALLS = 3  # in a row, as steps follow each other
MATRIX = 4096 * 768  # weights come in matrices, as a model has them


def measure_selection(
    *,
    sizes: list[int],
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    rounds: int = 15,
    tell: Tell = silent,
) -> list[dict[str, Any]]:
    """For each size: an event after the ramp (the target stands still), one on its way up (nothing is known of the last
    one's), and the ways that copy all scores, masking included in all of them. All weights are drawn
    anew before each turn."""
    rows = []
    for number, size in enumerate(sizes, 1):
        tell(f"{number} of {len(sizes)}: {size:,} weights")
        rows += _measure(size, device, dtype, rounds)
        release(device)
    return rows


def _measure(size: int, device: torch.device, dtype: torch.dtype, rounds: int) -> list[dict[str, Any]]:
    weights = matrices(size, device, dtype)
    k = int(SPARSITY * size)

    def copying(way: str) -> None:
        cut = cut_of(weights, k, way)
        for weight in weights:
            weight.masked_fill_(weight.abs() <= cut, 0.0)

    in_one_piece = torch.cat(weights)
    sides: dict[str, Callable[[], object]] = {
        **events(weights, k),
        "two reads, one write": lambda: _floor(in_one_piece),
    }
    for way, most in {"topk": 1 << 31, "sort": 1 << 31, "kthvalue": 1 << 28}.items():
        if size < most and (device.type == "cuda" or size < 1 << 26):
            sides[way] = partial(copying, way)
    redraw = partial(draw, weights)
    times = take_turns(sides, rounds=rounds, warm_up=4, device=device, before=redraw, calls=CALLS, ahead_ms=20)
    return [
        table_row(
            name, numbers, weights=size, dtype=str(dtype).removeprefix("torch."),
            extra_bytes=peak_bytes(sides[name], device) if name != "two reads, one write" else None,
        )
        for name, numbers in times.items()
    ]  # fmt: skip


def events(weights: list[Tensor], k: int) -> dict[str, Callable[[], object]]:
    """One after the ramp, whose target stands still, and one on its way up, which knows nothing of the last."""
    scratch: kernels.Scratch = {}

    def event() -> None:
        kernels.zero_smallest_(weights, k, scratch=scratch)

    def rising() -> None:
        if "selection" in scratch:  # as if the target had moved: what the last event knew is of no use
            scratch["selection"].aimed_at = None
        scratch.pop("cut", None)
        event()

    event()
    return {"after the ramp": event, "on the ramp": rising}


def draw(weights: list[Tensor]) -> None:
    for weight in weights:
        weight.normal_(0, SPREAD)


def matrices(size: int, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator(device).manual_seed(0)
    whole, rest = divmod(size, MATRIX)
    counts = [MATRIX] * whole + ([rest] if rest else [])
    return [torch.empty(count, device=device, dtype=dtype).normal_(0, SPREAD, generator=generator) for count in counts]


def _floor(whole: Tensor) -> None:
    """What the memory system needs for the traffic of one event: one read, and one read and write."""
    whole.sum()
    whole.mul_(1.0)
