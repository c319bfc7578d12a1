"""Pruned matrices of awkward sizes."""

import torch
from torch import Tensor

SIZES = [(1, 1), (1, 300), (2, 17), (63, 128), (64, 129), (65, 127), (130, 257)]
TOKENS = [1, 2, 16, 17, 63, 64, 65, 129, 200]


def pruned(rows: int, columns: int, *, density: float = 0.15, paired: bool = False, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    groups = -(-rows // 2) if paired else rows
    keep = torch.rand(groups, columns, generator=draw) < density
    if paired:
        keep = keep.repeat_interleave(2, dim=0)[:rows]
    return torch.randn(rows, columns, generator=draw) * keep


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """The largest difference, against the largest number."""
    return float((actual - expected).abs().max() / expected.abs().max().clamp(min=1e-30))
