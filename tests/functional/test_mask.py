"""Masks lose exactly the lowest, by either way of finding them."""

from functools import partial

import pytest
import torch

from mgpp.functional.mask import by_sorting_, mask_, mask_smallest_
from mgpp.kernels import mask_ as fast_mask_

SHAPES = [(7, 5), (1,), (64, 33), (3, 4, 5)]


def scores_with_ties(device: torch.device, dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(-4, 5, shape, generator=generator).to(device, dtype) / 4 for shape in SHAPES]


@pytest.mark.parametrize("find_", [mask_smallest_, by_sorting_])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("k", [0, 1, 36, 1000, 2207])
def test_the_lowest_leave_the_masks_ties_by_position(find_, dtype, k, device):
    scores = scores_with_ties(device, dtype)
    masks = [torch.zeros_like(score, dtype=torch.bool) for score in scores]  # whatever was in them
    cut = find_(masks, k, score=lambda mask, score: score, inputs=[(score,) for score in scores])
    flat = torch.cat([score.flatten() for score in scores]).cpu()
    order = flat.float().argsort(stable=True)
    expected = torch.ones(len(flat), dtype=torch.bool)
    expected[order[:k]] = False
    assert torch.equal(torch.cat([mask.flatten() for mask in masks]).cpu(), expected)
    assert float(cut) == float(flat[order[k]])


def test_masks_that_do_not_lie_in_rows_are_masked_by_their_own_positions(device):
    score = torch.arange(12.0, device=device).view(3, 4)
    for find_ in (mask_smallest_, by_sorting_):
        mask = torch.zeros(4, 3, dtype=torch.bool, device=device).T
        find_([mask], 5, score=lambda mask, score: score, inputs=[(score,)])
        assert torch.equal(mask, score >= 5)


@pytest.mark.parametrize("mask", [mask_, partial(fast_mask_, scratch={})])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_mask_is_laid_over_a_tensor_or_over_another_into_it(mask, dtype, device):
    generator = torch.Generator().manual_seed(0)
    source = torch.randn(40, 33, generator=generator).to(device, dtype)
    source[:2] = float("nan")
    keep = (torch.rand(40, 33, generator=generator) < 0.5).to(device)
    itself, other, across = source.clone(), torch.ones_like(source), torch.ones(33, 40, device=device, dtype=dtype).T
    mask([itself], [keep])
    mask([other, across], [keep, keep], sources=[source, source])
    for masked in (itself, other, across):
        torch.testing.assert_close(masked, source.where(keep, 0), rtol=0, atol=0, equal_nan=True)
        assert not torch.signbit(masked[~keep]).any()  # a zero is a zero, not a minus zero
