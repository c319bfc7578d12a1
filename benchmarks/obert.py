"""What one oBERT event costs: its seconds, and the memory it has for a moment and keeps.

    python benchmarks/obert.py --shape bert-base --num-grads 1024 --memory-gb 8 --output benchmarks/results/NAME.json

Models with random weights, rows of random tokens, blocks of 50, 90% in one event. `--shape` and `--memory-gb` may be
repeated.
"""

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import torch

import mgpp
from mgpp.bench.overhead import SHAPES
from mgpp.bench.results import append
from mgpp.bench.timing import peak_bytes, release
from mgpp.run.result import provenance


def measure(shape: str, *, device: torch.device, **settings: Any) -> dict[str, Any]:
    made = SHAPES[shape]
    torch.manual_seed(0)
    with device:
        model = made.model()
    texts = torch.randint(5, 30_000, (256, made.length))
    rows = [{"input_ids": text, "labels": text if made.causal else torch.tensor(0)} for text in texts]
    method = mgpp.OBERT(sparsity=0.9, start=0, end=1, every=1, **settings)
    pruner = mgpp.Pruner(
        model, method, total_steps=1, train_size=len(rows), gradients=mgpp.GradientSampler(model, rows)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    pruner.attach(optimizer)
    model(**{name: part[None].to(device) for name, part in rows[0].items()}).loss.backward()
    spent: list[float] = []

    def event() -> None:
        began = time.perf_counter()
        optimizer.step()
        pruner.settle()
        spent.append(time.perf_counter() - began)

    peak = peak_bytes(event, device)
    if not spent:  # nobody counts memory on a CPU
        event()
    return {
        "name": f"{shape}, {method.num_grads} gradients of {method.batch_size} rows, memory_gb={method.memory_gb:g}",
        "weights": pruner.num_weights,
        "event_s": round(spent[0], 2),
        "peak_bytes": peak,
        "kept_bytes": pruner.memory.bytes,
        "sparsity": pruner.sparsity,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", choices=list(SHAPES))
    parser.add_argument("--num-grads", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--memory-gb", type=float, action="append")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    rows = []
    device = torch.device(given.device)
    taken = {"num_grads": given.num_grads, "batch_size": given.batch_size}
    for shape, memory in product(given.shape or ["minilm"], given.memory_gb or [8.0]):
        rows.append(measure(shape, device=device, memory_gb=memory, **taken))
        print(json.dumps(rows[-1]), file=sys.stderr)
        release(device)
    result = {
        "what": "obert",
        "command": " ".join(["python", *sys.argv]),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **provenance(),
        "rows": rows,
    }
    print(json.dumps(result, indent=1))
    if given.output is not None:
        append(given.output, result)


if __name__ == "__main__":
    main()
