"""Which launches an event on a GPU is made of, and how long the device works at each, by torch's profiler.

    python benchmarks/launches.py [--weights 84934656] [--dtype float32] --output benchmarks/results/NAME.json

90% of them go, drawn anew before each event; of each kernel's launches in an event the sum, its median over the
events.
"""

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from mgpp.bench.results import append
from mgpp.bench.selection import SPARSITY, draw, events, matrices
from mgpp.run.result import provenance

MICRO = 1e-3  # of a millisecond


def launches_of(event: Callable[[], object]) -> dict[str, list[float]]:
    """Milliseconds of each launch, by kernel."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        event()
        torch.cuda.synchronize()
    spent: dict[str, list[float]] = defaultdict(list)
    on_device = [each for each in profiler.events() if each.device_type == torch.autograd.DeviceType.CUDA]
    for each in sorted(on_device, key=lambda each: each.time_range.start):
        spent[each.name].append(each.time_range.elapsed_us() * MICRO)
    return spent


def measure(size: int, dtype: torch.dtype, times: int) -> list[dict[str, Any]]:
    device = torch.device("cuda")
    weights = matrices(size, device, dtype)
    rows = []
    for when, event in events(weights, int(SPARSITY * size)).items():
        found = []
        for turn in range(4 + times):  # the first ones compile, and are recorded
            draw(weights)
            if turn < 4:
                event()
            else:
                found.append(launches_of(event))
        for kernel, launches in found[0].items():
            sums = [sum(each.get(kernel, [])) for each in found]
            name = f"{when}: {kernel.removesuffix('_kernel')}"
            rows.append({"name": name, "launches": len(launches), "device_ms": round(statistics.median(sums), 4)})
        whole = statistics.median(sum(map(sum, each.values())) for each in found)
        number = sum(map(len, found[0].values()))
        rows.append({"name": f"{when}: all", "launches": number, "device_ms": round(whole, 4)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=int, default=84_934_656)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--events", type=int, default=9)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no GPU here, and this measures one")
    result = {
        "what": "launches",
        "command": " ".join(["python", *sys.argv]),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **provenance(),
        "rows": measure(given.weights, getattr(torch, given.dtype), given.events),
    }
    print(json.dumps(result, indent=1))
    if given.output is not None:
        append(given.output, result)


if __name__ == "__main__":
    main()
