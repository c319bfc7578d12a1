"""The block inverse is the recursion's, the score and the compensation are the reference's."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

from mgpp.functional import fisher

GOLDEN = Path(__file__).parent.parent / "golden" / "obert-block.npz"


def by_recursion(grads: torch.Tensor, *, damp: float) -> torch.Tensor:
    """The definition: F⁻¹ = I/damp; F⁻¹ -= (F⁻¹g)(F⁻¹g)ᵀ / (m + gᵀF⁻¹g) for each of m gradients, blocks × B × m."""
    blocks, size, count = grads.shape
    inverse = (torch.eye(size, dtype=grads.dtype) / damp).repeat(blocks, 1, 1)
    for i in range(count):
        g = grads[:, :, i : i + 1]
        moved = inverse @ g
        inverse = inverse - moved @ moved.mT / (count + g.mT @ moved)
    return inverse


def inverse_of(grads: torch.Tensor, *, damp: float) -> torch.Tensor:
    blocks, size, count = grads.shape
    total = torch.zeros(blocks, size, size, dtype=grads.dtype, device=grads.device)
    fisher.add_outer_products_(total, grads)
    return fisher.invert_(total, count=count, damp=damp)


@pytest.mark.parametrize(("blocks", "size", "count"), [(3, 10, 32), (1, 1, 5), (7, 50, 20), (2, 3, 1)])
@pytest.mark.parametrize("damp", [1e-7, 1e-4, 1.0])
def test_the_inverse_is_the_recursions(blocks, size, count, damp):
    grads = torch.randn(blocks, size, count, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 0.01
    expected = by_recursion(grads, damp=damp)
    # The recursion itself loses digits: it starts at 1/damp and ends where the gradients are.
    torch.testing.assert_close(inverse_of(grads, damp=damp), expected, rtol=1e-6, atol=1e-9 / damp)


def test_the_reference_event_is_matched():
    golden = np.load(GOLDEN)
    cfg = ast.literal_eval(str(golden["cfg"]))
    weight, grads = torch.from_numpy(golden["weight"]), torch.from_numpy(golden["grads"])
    size, length = cfg["block"], weight.numel()
    stacked = torch.stack([fisher.into_blocks(grad.reshape(-1), size) for grad in grads], dim=-1)
    inverse = inverse_of(stacked, damp=cfg["damp"])

    def as_weight(blocks: torch.Tensor) -> torch.Tensor:
        return fisher.out_of_blocks(blocks, length).view(weight.shape)

    diagonal = as_weight(fisher.diagonal(inverse))
    torch.testing.assert_close(diagonal, torch.from_numpy(golden["diag"]), rtol=1e-9, atol=0)
    score = fisher.saliency(weight, diagonal)
    torch.testing.assert_close(score, torch.from_numpy(golden["score"]), rtol=1e-9, atol=0)
    keep = torch.from_numpy(golden["keep"])
    assert torch.equal(keep, score >= score.flatten().sort().values[int(cfg["sparsity"] * length)])
    pruned = fisher.into_blocks((weight * ~keep).reshape(-1), size)
    after = (weight + as_weight(fisher.compensation(inverse, pruned))).masked_fill(~keep, 0)
    torch.testing.assert_close(after, torch.from_numpy(golden["weight_after"]), rtol=1e-9, atol=0)


@pytest.mark.parametrize(("size", "count"), [(1e-5, 3), (1e-3, 3), (1e-3, 1024), (0.1, 1024)])
def test_float32_is_enough_for_gradients_as_large_as_a_transformers(size, count, device):
    """Three gradients leave 47 of 50 directions to `damp` alone: there the sum's rounding is all that could be seen."""
    grads = size * torch.randn(4, 50, count, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    exact = inverse_of(grads, damp=1e-7)
    narrow = inverse_of(grads.float().to(device), damp=1e-7).cpu().double()
    torch.testing.assert_close(fisher.diagonal(narrow), fisher.diagonal(exact), rtol=1e-5, atol=0)


@pytest.mark.parametrize("length", [1, 9, 10, 11, 126])
def test_blocks_are_padded_with_zeros_and_read_back(length):
    flat = torch.arange(1.0, length + 1)
    blocks = fisher.into_blocks(flat, 10)
    assert blocks.shape == (-(-length // 10), 10)
    assert blocks.sum() == flat.sum()
    assert torch.equal(fisher.out_of_blocks(blocks, length), flat)


def test_compensation_of_the_whole_matrix_is_the_quadratic_optimum():
    """One block, one weight gone: the others move to the minimum of δᵀFδ/2 with that weight's change fixed."""
    generator = torch.Generator().manual_seed(2)
    grads = torch.randn(1, 6, 40, dtype=torch.float64, generator=generator)
    inverse = inverse_of(grads, damp=1e-3)
    weight = torch.randn(1, 6, dtype=torch.float64, generator=generator)
    going = torch.zeros_like(weight)
    going[0, 2] = weight[0, 2]
    change = fisher.compensation(inverse, going)[0]
    force = torch.linalg.inv(inverse[0]) @ change
    # ε in the denominator leaves a relative error of ε / diag.
    torch.testing.assert_close(change[2], -weight[0, 2], rtol=1e-5, atol=0)
    others = torch.tensor([0, 1, 3, 4, 5])
    torch.testing.assert_close(force[others], torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-9)
