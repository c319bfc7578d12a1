"""Timing that a noisy machine cannot fool: sides take turns, and the middle of many is what counts."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch


def milliseconds(work: Callable[[], object], device: torch.device) -> float:
    """How long `work` takes on the device, from an idle device to an idle device."""
    if device.type != "cuda":
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) * 1e3
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize(device)
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize(device)
    return begin.elapsed_time(end)


def take_turns(
    sides: Mapping[str, Callable[[], object]], *, rounds: int, warm_up: int, device: torch.device
) -> dict[str, dict[str, float]]:
    """Each side once a round, in turn, so that a slow minute of the machine is everybody's."""
    for work in sides.values():
        for _ in range(warm_up):
            work()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            times[name].append(milliseconds(work, device))
    return {name: summary(values) for name, values in times.items()}


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
