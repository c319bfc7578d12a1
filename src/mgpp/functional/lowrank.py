"""A matrix as a low-rank part and the rest:  W = UV + S."""

import math

import torch
from torch import Tensor


def rank_for(rows: int, columns: int, *, ratio: float) -> int:
    """r = ⌈ρ·H·W / (H + W)⌉: U and V together have about ρ times as many numbers as the matrix, and never fewer."""
    return math.ceil(ratio * rows * columns / (rows + columns))


def split(weight: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """(U √Σ, √Σ Vᵀ, S): the best approximation of this rank, halved evenly, and what it leaves over."""
    wide = weight.to(torch.promote_types(weight.dtype, torch.float32))
    left, right = (part.to(weight).contiguous() for part in _best(wide, rank))  # rounded first: S makes up for it
    return left, right, (wide - left.to(wide.dtype) @ right.to(wide.dtype)).to(weight.dtype)


def _best(weight: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """By the eigenvectors of the smaller side's products: an oblong matrix's own singular values take several
    times as long. Squaring loses half of the digits, of which float64 has twice as many."""
    if weight.shape[0] > weight.shape[1]:
        left, right = _best(weight.t(), rank)
        return right.t(), left.t()
    exact = weight.to("cpu" if weight.device.type == "mps" else weight.device).double()  # which has no float64
    squares, vectors = torch.linalg.eigh(exact @ exact.t())
    squares, vectors = squares[-rank:].flip(0), vectors[:, -rank:].flip(1)
    root = squares.clamp(min=0).pow(0.25)
    inverse = torch.where(root > 0, 1 / root, 0)
    return vectors * root, inverse.unsqueeze(1) * (vectors.t() @ exact)


def joined(left: Tensor, right: Tensor, rest: Tensor) -> Tensor:
    """UV + S, added up in float32 at least."""
    wide = torch.promote_types(rest.dtype, torch.float32)
    return (left.to(wide) @ right.to(wide) + rest.to(wide)).to(rest.dtype)
