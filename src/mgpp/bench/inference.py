"""What zeros bring: one encoder by every engine there is, and sparse at several sparsities, in one run."""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModel

from mgpp.bench import engines
from mgpp.bench.engines import Batch, Run
from mgpp.bench.overhead import SHAPES
from mgpp.bench.timing import Tell, release, silent, table_row, take_turns
from mgpp.functional.blocks import zero_blocks_
from mgpp.functional.score import magnitude
from mgpp.functional.structure import Blocks
from mgpp.runtime import keep_memory
from mgpp.targets import find_targets

Start = Callable[[nn.Module, Batch], tuple[Run, str]]

PLAIN = "torch fp32"
# They multiply by every zero: one measurement holds for every sparsity.
DENSE: dict[str, Start] = {
    PLAIN: engines.torch_fp32,
    "torch bf16": engines.torch_bf16,
    "torch.compile": engines.torch_compiled,
    "ONNX Runtime fp32": engines.onnx_runtime,
    "OpenVINO fp32": engines.openvino_fp32,
    "OpenVINO bf16": engines.openvino_bf16,
}
# Measured only where asked for: what the kernel's attention brings, and the most that fusing activations could bring.
TORCHS_ATTENTION, NO_ACTIVATION = "sparse, torch's attention", "sparse without activations"
SPARSE = {"sparse": 1, "sparse 2x1": 2, TORCHS_ATTENTION: 1, NO_ACTIVATION: 1}  # rows that are kept or zeroed together
CPU = torch.device("cpu")
REST = 0.02  # seconds: each engine has threads of its own, which spin on for a while after their work


@dataclass(frozen=True, kw_only=True)
class _Side:
    name: str
    sparsity: float | None
    model: nn.Module
    start: Start


def measure_inference(
    shape: str,
    *,
    sparsities: Sequence[float] = (0.8, 0.9, 0.95),
    batches: Sequence[int] = (1, 32),
    length: int = 128,
    rounds: int = 15,
    only: Sequence[str] | None = None,
    kept: bool = False,
    load: Callable[[], nn.Module] | None = None,
    tell: Tell = silent,
) -> list[dict[str, Any]]:
    """One row an engine, batch size and sparsity: milliseconds, how many times as fast as torch in float32 it is, and
    how far its outputs lie from torch's (the largest difference, against the largest output).

    The model has random weights, of which the smallest are zeroed; or it is the pruned one that `load` gives, and
    `shape` is its name. `kept`: the process keeps the memory that it frees, from then on (mgpp.runtime.keep_memory).
    """
    unknown = sorted(set(only or ()) - {*DENSE, *SPARSE})
    if unknown:
        raise ValueError(f"only={unknown[0]!r} is not one of {', '.join([*DENSE, *SPARSE])}")
    if kept and not keep_memory():
        raise RuntimeError("this C library cannot be told to keep memory: leave --keep-memory out")
    model = (load() if load is not None else _random(shape)).float().eval()
    rows = []
    for number, batch in enumerate(batches, 1):
        tell(f"{number} of {len(batches)}: batch {batch}")
        chosen = _sides(model, sparsities, only, as_it_is=load is not None)
        facts = {"shape": shape, "batch": batch, "length": length}
        rows += [{**row, **facts} for row in _measure(chosen, _tokens(model, batch, length), rounds)]
        release(CPU)
    return rows


def _sides(
    model: nn.Module, sparsities: Sequence[float], only: Sequence[str] | None, *, as_it_is: bool
) -> Iterator[_Side]:
    """Torch in float32, the dense engines, then sparse: each pruned model is made when its turn has come."""
    for name, start in DENSE.items():
        if only is None or name in only or name == PLAIN:
            yield _Side(name=name, sparsity=None, model=model, start=start)
    chosen = {name: tied for name, tied in SPARSE.items() if name in (only or ("sparse", "sparse 2x1"))}
    if as_it_is and chosen:
        yield _Side(name="sparse", sparsity=round(_sparsity(model), 4), model=model, start=engines.sparse)
        return
    for sparsity in sparsities:
        for name, tied in chosen.items():
            pruned = copy.deepcopy(model)
            _prune_(pruned, sparsity, tied)
            if name == NO_ACTIVATION:
                _drop_activations_(pruned)
            start = engines.sparse_with_torchs_attention if name == TORCHS_ATTENTION else engines.sparse
            yield _Side(name=name, sparsity=round(_sparsity(pruned), 4), model=pruned, start=start)


def _measure(sides: Iterator[_Side], batch: Batch, rounds: int) -> list[dict[str, Any]]:
    runs: dict[str, Run] = {}
    about: dict[str, dict[str, Any]] = {}
    for side in sides:
        name = side.name if side.sparsity is None else f"{side.name} {side.sparsity:.0%}"
        try:
            run, detail = side.start(side.model, batch)
        except ImportError as missing:
            about[name] = {"missing": str(missing)}
            continue
        expected = engines.torch_fp32(side.model, batch)[0]()
        about[name] = {"sparsity": side.sparsity, "error": _error(run(), expected), "detail": detail}
        runs[name] = run
    calls = 3 if batch["input_ids"].numel() <= 1024 else 1
    times = take_turns(runs, rounds=rounds, warm_up=2, device=CPU, calls=calls, before=lambda: time.sleep(REST))
    plain = times[PLAIN]["median_ms"]
    for name, numbers in times.items():
        about[name] = {"speedup": round(plain / numbers["median_ms"], 3), **about[name]}
    return [table_row(name, times.get(name, {}), **more) for name, more in about.items()]


def _random(shape: str) -> nn.Module:
    torch.manual_seed(0)
    return AutoModel.from_config(SHAPES[shape].config)


def _tokens(model: nn.Module, batch: int, length: int) -> Batch:
    vocabulary = int(model.config.vocab_size)  # type: ignore[union-attr,arg-type]
    ids = torch.randint(min(5, vocabulary - 1), vocabulary, (batch, length))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@torch.no_grad()
def _prune_(model: nn.Module, sparsity: float, tied: int) -> None:
    """Zero the smallest weights of the whole model, `tied` rows at a time."""
    weights = list(find_targets(model).values())
    count = int(sparsity * sum(weight.numel() for weight in weights))
    zero_blocks_(weights, count, blocks=Blocks(tied, 1), score=magnitude, inputs=[()] * len(weights))


def _drop_activations_(model: nn.Module) -> None:
    for name, module in list(model.named_modules()):
        if type(module).__module__ == "transformers.activations" or isinstance(module, nn.GELU):
            model.set_submodule(name, nn.Identity())


def _sparsity(model: nn.Module) -> float:
    weights = find_targets(model).values()
    return 1 - sum(int(torch.count_nonzero(weight)) for weight in weights) / sum(weight.numel() for weight in weights)


def _error(found: Tensor, expected: Tensor) -> float:
    return float(f"{float((found.float() - expected).abs().max() / expected.abs().max()):.2g}")
