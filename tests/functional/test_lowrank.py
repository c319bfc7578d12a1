"""UV + S is W, and UV is the best that its rank allows."""

import pytest
import torch

from mgpp.functional.lowrank import joined, rank_for, split


@pytest.mark.parametrize(
    ("rows", "columns", "ratio", "rank"),
    [(768, 768, 0.05, 20), (3072, 768, 0.05, 31), (12, 8, 0.05, 1), (1024, 4096, 0.35, 287), (3, 5, 1.0, 2)],
)
def test_the_rank_is_the_first_that_reaches_the_ratio(rows, columns, ratio, rank):
    assert rank_for(rows, columns, ratio=ratio) == rank
    assert rank * (rows + columns) >= ratio * rows * columns > (rank - 1) * (rows + columns)


@pytest.mark.parametrize("shape", [(12, 8), (8, 12), (7, 7), (1, 5), (64, 33)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_parts_give_the_matrix_back_to_rounding(shape, dtype, device):
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device, dtype)
    for rank in range(1, min(shape) + 1):
        left, right, rest = split(weight, rank)
        assert left.shape == (shape[0], rank)
        assert right.shape == (rank, shape[1])
        assert {left.dtype, right.dtype, rest.dtype} == {dtype}
        error = (joined(left, right, rest) - weight).abs().max()
        assert error <= 4 * torch.finfo(dtype).eps * weight.abs().max()


def test_the_low_rank_part_is_the_best_of_its_rank():
    weight = torch.randn(20, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sigma = torch.linalg.svdvals(weight)
    for rank in (1, 5, 19):
        left, right, rest = split(weight, rank)
        torch.testing.assert_close(rest.norm(), sigma[rank:].norm())
        # Halved evenly: U and V are of one size, so that one learning rate fits both.
        torch.testing.assert_close(left.norm(), right.norm())


@pytest.mark.parametrize("shape", [(12, 30), (30, 12)])
@pytest.mark.parametrize("rank", [1, 3, 10])
def test_a_matrix_of_lower_rank_leaves_nothing_over(shape, rank):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(shape[0], 2, generator=generator) @ torch.randn(2, shape[1], generator=generator)
    left, right, rest = split(weight, rank)
    assert all(part.is_contiguous() for part in (left, right))
    assert (rest.norm() < 1e-5 * weight.norm()) == (rank >= 2)
    assert all(part.isfinite().all() for part in (left, right, rest))


def test_zeros_have_parts_that_are_zeros():
    assert not any(part.any() for part in split(torch.zeros(4, 6), 2))
