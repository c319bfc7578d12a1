"""How small a pruned model becomes on the disk, and what processor time writing and reading it take.

    python benchmarks/sizes.py MODEL --sparsity 0.9 --output benchmarks/results/NAME.json

MODEL is a folder or hub id. Its smallest weights are set to zero first, over all layers together, until `sparsity` of
the prunable ones are; nothing is trained. `--sparsity 0` takes the model as it is.
"""

import argparse
import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mgpp.artifact import load_sparse, save_sparse
from mgpp.artifact.container import as_bytes
from mgpp.artifact.source import load_any
from mgpp.artifact.verify import verify
from mgpp.artifact.zstd import compress
from mgpp.bench.results import append
from mgpp.functional.select import zero_smallest_
from mgpp.run.result import provenance, sparsity_of
from mgpp.targets import find_targets

INT8 = {"values": "int8", "embeddings": "int8"}
WAYS: dict[str, dict[str, Any]] = {
    "exact": {},
    "exact, zstd": {"zstd": True},
    "bf16": {"values": "bf16"},
    "bf16, zstd": {"values": "bf16", "zstd": True},
    "fp16, zstd": {"values": "fp16", "zstd": True},
    "int8, embeddings as they are, zstd": {"values": "int8", "zstd": True},
    "int8": INT8,
    "int8, zstd": {**INT8, "zstd": True},
}


def measure(model: nn.Module) -> list[dict[str, Any]]:
    """Every way against the dense float32 checkpoint of the same model."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        dense = sum(path.stat().st_size for path in Path(folder).glob("*.safetensors"))
    rows = [row("dense", dense, dense=dense)]
    packed = sum(len(compress(as_bytes(tensor.detach().contiguous()), width=4)) for tensor in model.parameters())
    rows.append(row("dense, zstd", packed, dense=dense))
    for name, options in WAYS.items():
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            size = save_sparse(model, folder, **options)["bytes"]
            saved = time.process_time()
            load_sparse(folder)
            loaded = time.process_time()
            error = max(check.max_error for check in verify(Path(folder), model).values())
        rows.append(row(name, size, dense=dense, save_cpu_s=saved - began, load_cpu_s=loaded - saved, max_error=error))
        print(json.dumps(rows[-1]), file=sys.stderr)
    return rows


def row(name: str, size: int, *, dense: int, **more: float) -> dict[str, Any]:
    rounded = {key: float(f"{value:.3g}") for key, value in more.items()}
    return {"name": name, "bytes": size, "times_smaller": round(dense / size, 2), **rounded}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--sparsity", type=float, default=0.9)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    model = load_any(given.model).float()
    targets = find_targets(model)
    if given.sparsity:
        weights = [weight.data for weight in targets.values()]
        zero_smallest_(weights, int(given.sparsity * sum(weight.numel() for weight in weights)), score=torch.abs)
    result = {
        "what": "sizes",
        "command": " ".join(["python", *sys.argv]),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **provenance(),
        **sparsity_of(targets),
        "rows": measure(model),
    }
    print(json.dumps(result, indent=1))
    if given.output is not None:
        append(given.output, result)


if __name__ == "__main__":
    main()
