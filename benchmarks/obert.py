"""What one oBERT event costs: its seconds, and the memory it has for a moment and keeps.

    python benchmarks/obert.py --shape bert-base --num-grads 1024 --memory-gb 8 --output benchmarks/results/NAME.json

A model with random weights, rows of random tokens, blocks of 50, 90% in one event. `--memory-gb` may be repeated.
"""

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

import mgpp
from mgpp.bench.overhead import SHAPES
from mgpp.bench.results import append
from mgpp.bench.timing import peak_bytes, release
from mgpp.run.result import provenance


def measure(shape: str, *, num_grads: int, memory_gb: float, device: torch.device) -> dict[str, Any]:
    made = SHAPES[shape]
    torch.manual_seed(0)
    with device:
        model = AutoModelForSequenceClassification.from_config(made.config)
    rows = [{"input_ids": torch.randint(5, 30_000, (made.length,)), "labels": i % 2} for i in range(256)]
    method = mgpp.OBERT(sparsity=0.9, start=0, end=1, every=1, num_grads=num_grads, memory_gb=memory_gb)
    pruner = mgpp.Pruner(
        model, method, total_steps=1, train_size=len(rows), gradients=mgpp.GradientSampler(model, rows)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    pruner.attach(optimizer)
    label = torch.zeros(1, dtype=torch.long, device=device)
    model(input_ids=rows[0]["input_ids"][None].to(device), labels=label).loss.backward()
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
        "name": f"{num_grads} gradients, memory_gb={memory_gb:g}",
        "weights": pruner.num_weights,
        "event_s": round(spent[0], 2),
        "peak_bytes": peak,
        "kept_bytes": pruner.memory.bytes,
        "sparsity": pruner.sparsity,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="minilm", choices=list(SHAPES))
    parser.add_argument("--num-grads", type=int, default=1024)
    parser.add_argument("--memory-gb", type=float, action="append")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    rows = []
    for memory in given.memory_gb or [8.0]:
        device = torch.device(given.device)
        rows.append(measure(given.shape, num_grads=given.num_grads, memory_gb=memory, device=device))
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
