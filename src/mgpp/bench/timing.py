"""Timing that a noisy machine cannot fool: sides take turns, and the middle of many is what counts."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

Tell = Callable[[str], None]  # gets a line for a person, who else would see nothing for minutes

CYCLES_PER_MS = 2_000_000  # of a GPU's clock, about


def silent(line: str) -> None:
    """For who has nobody to tell."""


def milliseconds(work: Callable[[], object], device: torch.device, *, calls: int = 1) -> float:
    """How long one of `calls` calls in a row takes, as a training loop runs them: nobody waits between them."""
    _wait(device)
    start = time.perf_counter()
    for _ in range(calls):
        work()
    _wait(device)
    return (time.perf_counter() - start) * 1e3 / calls


def on_device(
    work: Callable[[], object],
    device: torch.device,
    *,
    ahead_ms: int,
    before: Callable[[], object] = lambda: None,
) -> float | None:
    """How long the device itself works at it, `before` not counted: what is left where the host is no bottleneck.

    First it is kept busy for `ahead_ms`, in which the host must have queued everything.
    """
    if device.type != "cuda":
        return None
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(ahead_ms * CYCLES_PER_MS)
    before()
    begin.record()
    work()
    end.record()
    _wait(device)
    return begin.elapsed_time(end)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def take_turns(
    sides: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    warm_up: int,
    device: torch.device,
    calls: int = 1,
    ahead_ms: int = 300,
    before: Callable[[], object] = lambda: None,
) -> dict[str, dict[str, Any]]:
    """Each side once a round, in turn, so that a slow minute of the machine is everybody's; the device alone in at most
    five of them. `before` comes before a side's turn, and is not counted."""
    for work in sides.values():
        for _ in range(warm_up):
            before()
            work()
    times: dict[str, list[float]] = {name: [] for name in sides}
    alone: dict[str, list[float | None]] = {name: [] for name in sides}
    for turn in range(rounds):
        for name, work in sides.items():
            before()
            times[name].append(milliseconds(work, device, calls=calls))
            if turn < 5:
                alone[name].append(on_device(work, device, ahead_ms=ahead_ms, before=before))
    return {name: {**summary(values), "device_ms": _median(alone[name])} for name, values in times.items()}


def _median(values: list[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return statistics.median(measured) if measured else None


def summary(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return {
        "median_ms": statistics.median(ordered),
        "low_ms": ordered[quarter],
        "high_ms": ordered[-1 - quarter],
        "runs": len(ordered),
    }


def peak_bytes(work: Callable[[], object], device: torch.device) -> int | None:
    """The most memory that `work` had allocated at once beyond what was there before; None where nobody counts it."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    work()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def release(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def table_row(name: str, numbers: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    rounded = {key: round(value, 4) if isinstance(value, float) else value for key, value in numbers.items()}
    return {"name": name, **rounded, **more}
