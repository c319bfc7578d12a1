"""The empirical Fisher matrix in blocks along the diagonal, its inverse, and what pruning with it means.

A weight matrix is read row after row and cut into blocks of B weights, the last one padded. Over m gradients g

    F = damp·I + 1/m Σ g gᵀ      in every block

The inverse is the one that the recursion F⁻¹ -= (F⁻¹g)(F⁻¹g)ᵀ / (m + gᵀF⁻¹g) from F⁻¹ = I/damp gives. Summing the outer
products and inverting once gives it without m passes over B numbers a weight: 3 ms a gradient against 90 ms for 1M
weights and B = 50 on 2 cores. In float32 the sum is good while its rounding, 1e-7 times its largest eigenvalue, is
small beside `damp`: for gradients of 1e-3 and damp = 1e-7 the diagonal is off by 1e-6.
"""

import torch
from torch import Tensor

EPS = torch.finfo(torch.float32).eps
INVERT_AT_ONCE = 2048  # blocks: 40 MB in float64 at B = 50


def into_blocks(flat: Tensor, size: int) -> Tensor:
    """A vector as rows of `size`, zeros after its end. Padding has no gradient, so it is coupled to nothing."""
    count = -(-flat.numel() // size)
    padded = flat.new_zeros(count * size)
    padded[: flat.numel()] = flat
    return padded.view(count, size)


def out_of_blocks(blocks: Tensor, length: int) -> Tensor:
    return blocks.reshape(-1)[:length]


def add_outer_products_(total: Tensor, grads: Tensor) -> None:
    """Σ g gᵀ in every block: `total` is blocks × B × B, `grads` is blocks × B × gradients."""
    total.baddbmm_(grads, grads.mT)


def invert_(total: Tensor, *, count: int, damp: float) -> Tensor:
    """Turn the sum over `count` gradients into F⁻¹, in place."""
    # In float64 wherever there is one: F's largest eigenvalue may be millions of times its smallest, `damp`.
    precise = torch.float32 if total.device.type == "mps" else torch.float64
    for blocks in total.split(INVERT_AT_ONCE):
        fisher = blocks.to(precise).div_(count)
        fisher.diagonal(dim1=-2, dim2=-1).add_(damp)
        blocks.copy_(torch.linalg.inv(fisher))
    return total


def diagonal(inverse: Tensor) -> Tensor:
    """[F⁻¹]ᵢᵢ as blocks × B."""
    return inverse.diagonal(dim1=-2, dim2=-1)


def saliency(weight: Tensor, inverse_diagonal: Tensor) -> Tensor:
    """w² / (2 [F⁻¹]ᵢᵢ + ε): how much the loss grows when w goes and the others make up for it."""
    return weight.to(inverse_diagonal.dtype).square() / (2 * inverse_diagonal + EPS)


def compensation(inverse: Tensor, pruned: Tensor) -> Tensor:
    """-F⁻¹ (w / (diag F⁻¹ + ε)), what to add to a block's weights when `pruned` goes (the weights that go, else 0)."""
    pull = pruned.to(inverse.dtype) / (diagonal(inverse) + EPS)
    return torch.bmm(inverse, pull.unsqueeze(-1)).squeeze(-1).neg_()
