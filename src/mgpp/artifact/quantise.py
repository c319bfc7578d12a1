"""int8 with one scale a row: w ≈ q · s, where s = max|w| / 127 over the row and q is an integer in [-127, 127].

A row is what lies along the last axis: of a stack of matrices every one has its own rows.
"""

import torch
from torch import Tensor

LEVELS = 127


def quantise_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """q in the shape of the weight, and s, one float32 for every row."""
    rows = weight.detach().to(torch.float32).reshape(-1, weight.shape[-1])
    scale = rows.abs().amax(dim=1) / LEVELS
    # A row of zeros, or of numbers so small that their scale is none, comes out as zeros.
    divisor = torch.where(scale > 0, scale, torch.inf)
    quantised = (rows / divisor.unsqueeze(1)).round_().clamp_(-LEVELS, LEVELS).to(torch.int8)
    return quantised.reshape(weight.shape), scale


def dequantise_rows(quantised: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """`quantised` is rows × columns."""
    return (quantised * scale.unsqueeze(1)).to(dtype)
