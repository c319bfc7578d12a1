"""Whole blocks go: the right ones, as many as fit, the right one of a tie."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpp.functional import blocks as blocked
from mgpp.functional import chunks
from mgpp.functional.blocks import block_scores, block_sizes, zero_blocks_
from mgpp.functional.score import magnitude
from mgpp.functional.select import zero_smallest_
from mgpp.functional.structure import Blocks


def one_by_one(weights: list[torch.Tensor], k: int, blocks: Blocks) -> tuple[list[torch.Tensor], float]:
    """The obvious twin: every block is a slice, and Python sorts them. Also the score of the first that stays."""
    weights = [weight.clone() for weight in weights]
    pieces = [
        weight[row : row + blocks.rows, column : column + blocks.columns]
        for weight in weights
        for row, column in itertools.product(
            range(0, weight.shape[0], blocks.rows), range(0, weight.shape[1], blocks.columns)
        )
    ]
    for piece in sorted(pieces, key=mean_size):
        if piece.numel() > k:
            return weights, mean_size(piece)
        k -= piece.numel()
        piece.zero_()
    raise AssertionError("all blocks went")


def mean_size(piece: torch.Tensor) -> float:
    return float(piece.double().abs().mean())


# Weights are small whole numbers there: the means of blocks are often equal, and then so in floats, too.
matrices = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3)
shapes_of_blocks = st.tuples(st.integers(1, 5), st.integers(1, 5))


@settings(deadline=None, max_examples=150)
@given(matrices, shapes_of_blocks, st.floats(0, 0.999), st.integers(0, 2**32), st.booleans())
def test_any_shape_by_any_block_at_any_sparsity(shapes, block, share, seed, turned):
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randint(-3, 4, shape, generator=generator).float() for shape in shapes]
    if turned:
        weights = [weight.t().contiguous().t() for weight in weights]
    k = int(share * sum(weight.numel() for weight in weights))
    expected, first_that_stays = one_by_one(weights, k, Blocks(*block))
    cut = zero_blocks_(weights, k, blocks=Blocks(*block), score=magnitude, inputs=[()] * len(weights), marked=False)
    for actual, wanted in zip(weights, expected, strict=True):
        assert torch.equal(actual, wanted)
    assert cut.value == pytest.approx(first_that_stays, rel=1e-6)
    assert k - Blocks(*block).size < cut.count <= k


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_blocks_of_one_weight_are_the_unstructured_selection(dtype, device):
    weights = [torch.randn(shape, device=device).to(dtype) for shape in [(31, 17), (0, 5), (8, 40)]]
    expected = [weight.clone() for weight in weights]
    cut = zero_smallest_(expected, 600)
    taken = zero_blocks_(weights, 600, blocks=Blocks(1, 1), score=magnitude, inputs=[()] * 3)
    for actual, wanted in zip(weights, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0)
    assert (taken.value, taken.count) == (cut.value, 600)


@pytest.mark.parametrize("chunk", [1, 7, 64, 10_000])
def test_pieces_do_not_change_a_blocks_score(chunk, monkeypatch):
    weight, beside = torch.randn(37, 29), torch.rand(37, 29)
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    found = block_scores(weight, beside, torch.tensor(2.0), blocks=Blocks(4, 3), score=lambda w, v, c: w.abs() * v / c)
    worth = weight.abs() * beside / 2
    rows = [part.split(3, dim=1) for part in worth.split(4)]
    expected = torch.stack([torch.stack([block.mean() for block in row]) for row in rows])
    torch.testing.assert_close(found, expected)


def test_half_precision_scores_are_averaged_in_float32(device):
    weight = torch.full((64, 2), 0.1, dtype=torch.bfloat16, device=device)
    found = block_scores(weight, blocks=Blocks(64, 1), score=magnitude)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, weight[:1].float(), rtol=1e-6, atol=0)


def test_the_sizes_of_blocks_cover_the_matrix():
    sizes = block_sizes(torch.empty(7, 5), Blocks(3, 2))
    assert sizes.tolist() == [[6, 6, 3], [6, 6, 3], [2, 2, 1]]


def test_a_weight_that_is_gone_costs_nothing_and_a_block_that_is_gone_goes_first():
    score = torch.tensor([[-float("inf"), 4.0, -float("inf"), -float("inf"), 1.0, 1.5]])
    found = block_scores(torch.ones(1, 6), score, blocks=Blocks(1, 2), score=lambda w, s: s)
    assert found.tolist() == [[2.0, torch.finfo(torch.float32).min, 1.25]]


def test_ragged_blocks_are_zeroed_to_their_edges():
    weight = torch.ones(5, 4)
    blocked.zero_whole_(weight, torch.tensor([[False, True], [True, False], [False, True]]), Blocks(2, 3))
    assert weight.tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1], [1, 1, 1, 0]]
