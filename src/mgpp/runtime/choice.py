"""Dense or sparse: measured once for each shape and density."""

import time

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mgpp.runtime.layer import SparseLinear

ROUNDS = 5
# Densities closer than this behave alike: one measurement serves them.
STEP = 0.05

_known: dict[tuple[object, ...], float] = {}


def gain(dense: nn.Linear | Conv1D, sparse: SparseLinear, *, tokens: int) -> float:
    """How many times as fast the sparse layer is with that many tokens, here, with the threads of now."""
    shape = (sparse.out_features, sparse.in_features)
    kind = (sparse.path, sparse.packed.tied, round(sparse.packed.density / STEP))
    key = (*shape, *kind, tokens, torch.get_num_threads())
    if key not in _known:
        _known[key] = _measured(dense, sparse, tokens)
    return _known[key]


@torch.inference_mode()
def _measured(dense: nn.Module, sparse: SparseLinear, tokens: int) -> float:
    x = torch.ones(tokens, sparse.in_features)
    times: dict[nn.Module, list[float]] = {dense: [], sparse: []}
    for layer in times:
        layer(x)
    # In turns, so that a slow moment of the machine is both's; the fastest is the one that nobody disturbed.
    for _ in range(ROUNDS):
        for layer, seconds in times.items():
            seconds.append(_seconds(layer, x))
    return min(times[dense]) / min(times[sparse])


def _seconds(layer: nn.Module, x: Tensor) -> float:
    start = time.perf_counter()
    layer(x)
    return time.perf_counter() - start
