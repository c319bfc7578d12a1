"""A matrix as a low-rank part and the rest:  W = UV + S."""

import math

import torch
from torch import Tensor


def rank_for(rows: int, columns: int, *, ratio: float) -> int:
    """r = ⌈ρ·H·W / (H + W)⌉: U and V together have about ρ times as many numbers as the matrix, and never fewer."""
    return math.ceil(ratio * rows * columns / (rows + columns))


def split(weight: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """(U √Σ, √Σ Vᵀ, S): the best approximation of this rank, halved evenly, and what it leaves over."""
    wide = weight.to(torch.promote_types(weight.dtype, torch.float32))  # there is no SVD in half precision
    u, sigma, vh = torch.linalg.svd(wide, full_matrices=False)
    root = sigma[:rank].sqrt()
    # Rounded first: S makes up for that too.
    left, right = (u[:, :rank] * root).to(weight.dtype), (root.unsqueeze(1) * vh[:rank]).to(weight.dtype)
    return left, right, (wide - left.to(wide.dtype) @ right.to(wide.dtype)).to(weight.dtype)


def joined(left: Tensor, right: Tensor, rest: Tensor) -> Tensor:
    """UV + S, added up in float32 at least."""
    wide = torch.promote_types(rest.dtype, torch.float32)
    return (left.to(wide) @ right.to(wide) + rest.to(wide)).to(rest.dtype)
