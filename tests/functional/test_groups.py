"""N of every M stay: the highest of each group, and on the way there the lowest of all go first."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpp.functional import chunks
from mgpp.functional.groups import may_go, zero_in_groups_
from mgpp.functional.score import magnitude
from mgpp.functional.structure import Groups


def one_by_one(weights: list[torch.Tensor], k: int, groups: Groups) -> list[torch.Tensor]:
    """The obvious twin: every group is a list that Python sorts, and so are all that may go."""
    weights = [weight.clone() for weight in weights]
    found = []
    for number, weight in enumerate(weights):
        for row in range(weight.shape[0]):
            for start in range(0, weight.shape[1], groups.group):
                sizes = weight[row, start : start + groups.group].abs().tolist()
                members = [(size, start + i) for i, size in enumerate(sizes)]
                lowest = sorted(members)[: max(0, len(members) - groups.kept)]
                found += [(score, number, row, column) for score, column in lowest]
    for _, number, row, column in sorted(found)[:k]:
        weights[number][row, column] = 0
    return weights


matrices = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 14)), min_size=1, max_size=3)
patterns = st.integers(2, 6).flatmap(lambda group: st.tuples(st.integers(1, group - 1), st.just(group)))


@settings(deadline=None, max_examples=150)
@given(matrices, patterns, st.floats(0, 1), st.integers(0, 2**32), st.booleans(), st.booleans())
def test_any_shape_by_any_pattern_anywhere_on_the_ramp(shapes, pattern, share, seed, ties, turned):
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(shape, generator=generator) for shape in shapes]
    if ties:
        weights = [weight.round() for weight in weights]
    if turned:
        weights = [weight.t().contiguous().t() for weight in weights]
    groups = Groups(*pattern)
    k = groups.most(shapes, share * groups.sparsity)
    expected = one_by_one(weights, k, groups)
    cut = zero_in_groups_(weights, k, groups=groups, score=magnitude, inputs=[()] * len(weights))
    for actual, wanted in zip(weights, expected, strict=True):
        assert torch.equal(actual, wanted)
    assert cut.count == k


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_at_its_own_sparsity_every_group_keeps_exactly_its_highest(dtype, device):
    weight = torch.randn(64, 128, device=device).to(dtype)
    highest = weight.abs().unflatten(1, (-1, 4)).topk(2).values.sort(-1).values
    zero_in_groups_([weight], 64 * 64, groups=Groups(2, 4), score=magnitude, inputs=[()])
    kept = weight.abs().unflatten(1, (-1, 4)).sort(-1).values
    assert (kept[..., :2] == 0).all()
    torch.testing.assert_close(kept[..., 2:], highest, rtol=0, atol=0)


def test_the_cut_is_the_lowest_that_stays():
    weight = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    cuts = []
    for k in range(5):
        cuts.append(zero_in_groups_([weight.clone()], k, groups=Groups(2, 4), score=magnitude, inputs=[()]).value)
    # Of 1, 2, 5 and 6, which may go, and at the end of 3, 4, 7 and 8, which may not.
    assert cuts == [1, 2, 5, 6, 3]


def test_nan_counts_as_the_largest_and_equal_scores_go_by_position():
    nan = float("nan")
    score = torch.tensor([[nan, 1.0, 2.0, nan, 0.0, -0.0, 0.0, 0.0]])
    assert may_go(score, Groups(2, 4)).tolist() == [[False, True, True, False, True, True, False, False]]
    assert may_go(torch.full((1, 300), 1.0), Groups(100, 300)).sum() == 200


@pytest.mark.parametrize("chunk", [1, 10, 1000])
def test_pieces_never_cut_a_group(chunk, monkeypatch):
    weight, worth = torch.randn(17, 22), torch.rand(17, 22)
    expected = torch.where(may_go(worth, Groups(2, 4)), 0.0, weight)
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    k = Groups(2, 4).most([(17, 22)], 0.5)
    zero_in_groups_([weight], k, groups=Groups(2, 4), score=lambda w, s: s, inputs=[(worth,)])
    torch.testing.assert_close(weight, expected, rtol=0, atol=0)
