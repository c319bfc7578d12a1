"""What 2:4 zeros buy on a GPU: the same weights dense and compressed, as single layers and as whole models."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel

from mgpp.bench.decoder import LLAMA_7B
from mgpp.bench.timing import Tell, release, silent, table_row, take_turns
from mgpp.functional.groups import zero_all_
from mgpp.functional.score import magnitude
from mgpp.functional.structure import Groups
from mgpp.runtime.semi_structured import to_semi_structured
from mgpp.targets import find_targets

DTYPE = torch.bfloat16
TOKENS = (128, 4096)

# Outputs × inputs, as one block of the model has them.
LINEARS: dict[str, tuple[int, int]] = {
    "bert-base attention": (768, 768),
    "bert-base up": (3072, 768),
    "bert-base down": (768, 3072),
    "llama-7b attention": (4096, 4096),
    "llama-7b up": (11008, 4096),
    "llama-7b down": (4096, 11008),
}


@dataclass(frozen=True)
class Whole:
    make: Callable[[], nn.Module]
    batch: int
    length: int


# Four of Llama's 32 blocks: they are alike.
WHOLE: dict[str, Whole] = {
    "bert-base": Whole(lambda: BertModel(BertConfig()), 1, 128),
    "bert-base, batch 32": Whole(lambda: BertModel(BertConfig()), 32, 128),
    "llama-7b, 4 blocks": Whole(lambda: LlamaModel(LlamaConfig(**{**LLAMA_7B, "num_hidden_layers": 4})), 1, 2048),
}


def measure_semi_structured(
    *,
    device: torch.device,
    rounds: int = 15,
    tokens: Sequence[int] = TOKENS,
    linears: Mapping[str, tuple[int, int]] = LINEARS,
    whole: Mapping[str, Whole] = WHOLE,
    tell: Tell = silent,
) -> list[dict[str, Any]]:
    """Four rows a case, dense bfloat16 and 2:4 of the same zeros, each launched by Python and recorded in a CUDA graph:
    milliseconds, the ratio to dense launched alike, the bytes of the weights and how far the outputs are apart,
    relative to their spread."""
    if device.type != "cuda":
        raise ValueError(f"device={device.type!r}: 2:4 runs on a GPU, use --device cuda on a machine that has one")
    return _measure(device, rounds, tokens, linears, whole, tell)


def _measure(
    device: torch.device,
    rounds: int,
    tokens: Sequence[int],
    linears: Mapping[str, tuple[int, int]],
    whole: Mapping[str, Whole],
    tell: Tell = silent,
) -> list[dict[str, Any]]:
    rows = []
    cases = len(linears) + len(whole)
    for number, (name, (outputs, inputs)) in enumerate(linears.items(), 1):
        tell(f"{number} of {cases}: {name}")
        for count in tokens:
            layer = _on(device, partial(nn.Linear, inputs, outputs, bias=False))
            x = torch.randn(count, inputs, device=device, dtype=DTYPE)
            rows += _compare(name, nn.Sequential(layer), x, device=device, rounds=rounds, tokens=count, calls=20)
    for number, (name, case) in enumerate(whole.items(), 1 + len(linears)):
        tell(f"{number} of {cases}: {name}, whole")
        model = _on(device, case.make)
        ids = torch.randint(5, 30_000, (case.batch, case.length), device=device)
        count = case.batch * case.length
        rows += _compare(f"{name}, whole", model, ids, device=device, rounds=rounds, tokens=count, calls=3)
        release(device)
    return rows


def _on(device: torch.device, make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    with device:
        return make().to(DTYPE).eval()


@torch.no_grad()
def _compare(
    name: str, dense: nn.Module, x: Tensor, *, device: torch.device, rounds: int, tokens: int, calls: int
) -> list[dict[str, Any]]:
    weights = list(find_targets(dense, include=["*"] if isinstance(dense, nn.Sequential) else ()).values())
    zero_all_(weights, groups=Groups(2, 4), score=magnitude, inputs=[()] * len(weights))
    sparse = to_semi_structured(copy.deepcopy(dense))
    eager = {"dense": partial(_output, dense, x), "2:4": partial(_output, sparse, x)}
    # The host needs 0.7 ms to launch a compressed layer, far more than the device works at it: a graph has no host.
    sides: dict[str, Callable[[], object]] = {**eager}
    sides |= {f"{side}, recorded": _recorded(work) for side, work in eager.items()}
    times = take_turns(sides, rounds=rounds, warm_up=5, device=device, calls=calls, ahead_ms=50)
    bytes_of = {"dense": sum(weight.nbytes for weight in weights), "2:4": _compressed_bytes(sparse)}
    apart = {"dense": None, "2:4": _apart(eager["2:4"](), eager["dense"]())}
    return [
        table_row(
            f"{name}: {side}", numbers, tokens=tokens,
            ratio=_ratio(numbers, times[side.replace("2:4", "dense")], "median_ms"),
            device_ratio=_ratio(numbers, times[side.replace("2:4", "dense")], "device_ms"),
            weight_bytes=bytes_of[side.removesuffix(", recorded")],
            apart=apart[side.removesuffix(", recorded")],
        )
        for side, numbers in times.items()
    ]  # fmt: skip


def _recorded(work: Callable[[], Tensor]) -> Callable[[], object]:
    if not torch.cuda.is_available():
        return work
    for _ in range(3):
        work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def _output(model: nn.Module, x: Tensor) -> Tensor:
    found = model(x)
    return found if isinstance(found, Tensor) else found.last_hidden_state


def _ratio(numbers: Mapping[str, Any], dense: Mapping[str, Any], key: str) -> float | None:
    return None if dense[key] is None else round(numbers[key] / dense[key], 4)


def _apart(found: Tensor, expected: Tensor) -> float:
    return round(float((found.float() - expected.float()).square().mean().sqrt() / expected.float().std()), 6)


def _compressed_bytes(model: nn.Module) -> int:
    inner = [getattr(parameter, part, None) for parameter in model.parameters() for part in ("packed", "meta")]
    return sum(tensor.nbytes for tensor in inner if isinstance(tensor, Tensor))
