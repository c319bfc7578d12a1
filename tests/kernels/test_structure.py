"""The fast ways to a structure do what the readable twins do: same weights, same cut, same counts."""

import pytest
import torch

from mgpp.functional import blocks as plain_blocks
from mgpp.functional import groups as plain_groups
from mgpp.functional.score import magnitude
from mgpp.functional.structure import Blocks, Groups, parse_structure
from mgpp.kernels import groups as fast_groups
from mgpp.kernels import structure as fast

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SHAPES = [(8, 64), (96, 32), (12, 512)]


def matrices(shapes, dtype, device, *, turned=False, ties=False):
    found = [torch.randn(shape) * 0.05 for shape in shapes]
    if ties:
        found = [(weight * 40).round() / 40 + 0.0 for weight in found]
    return [weight.t().contiguous().t().to(device, dtype) if turned else weight.to(device, dtype) for weight in found]


def cut_of(outcome):
    return outcome if isinstance(outcome, fast.Cut) else outcome.cut()


def assert_alike(actual, expected, outcome, cut) -> None:
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
        assert not (torch.signbit(mine) & (mine == 0)).any(), "a zero is negative"
    assert (cut_of(outcome).value, cut_of(outcome).count) == (cut.value, cut.count)
    if not isinstance(outcome, fast.Cut):
        assert outcome.ready() or mine.is_cuda
        assert outcome.zeros() == [int((weight == 0).sum()) for weight in expected]


def worth(weight, beside):
    return weight.abs() * beside


def signed(weight, beside):
    return beside.where(weight > -0.05, -float("inf"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("word", ["2x1", "4x4", "1x32", "3x5"])
@pytest.mark.parametrize("share", [0.0, 0.9])
@pytest.mark.parametrize("turned", [False, True])
def test_blocks(dtype, word, share, turned, device):
    weights = matrices(SHAPES, dtype, device, turned=turned)
    k = int(share * sum(weight.numel() for weight in weights))
    scratch: dict = {}
    for _ in range(3):  # later events use what the last has found
        expected = [weight.clone() for weight in weights]
        settings = {"blocks": parse_structure(word), "score": magnitude, "inputs": [()] * 3}
        cut = plain_blocks.zero_blocks_(expected, k, **settings, marked=False)
        outcome = fast.zero_blocks_(weights, k, **settings, kernel="magnitude", scratch=scratch)
        assert_alike(weights, expected, outcome, cut)
        for weight in weights:
            weight.add_(torch.randn(weight.shape).to(weight) * 1e-3)


@pytest.mark.parametrize(("score", "kernel"), [(worth, "product"), (signed, None)])
@pytest.mark.parametrize("structure", [Blocks(2, 1), Blocks(4, 4), Groups(2, 4), Groups(1, 8)])
@pytest.mark.parametrize("share", [0.3, 0.5])
def test_other_scores_negative_ones_and_marks(score, kernel, structure, share, device):
    weights = matrices(SHAPES, torch.float32, device)
    beside = [(torch.rand(weight.shape, device=device) - (0.5 if kernel is None else 0.0),) for weight in weights]
    k = structure.most([tuple(weight.shape) for weight in weights], share)
    expected = [weight.clone() for weight in weights]
    more = {"score": score, "inputs": beside}
    if isinstance(structure, Blocks):
        cut = plain_blocks.zero_blocks_(expected, k, blocks=structure, **more, marked=kernel is None)
    else:
        cut = plain_groups.zero_in_groups_(expected, k, groups=structure, **more)
    outcome = fast.zero_smallest_(weights, k, structure=structure, **more, kernel=kernel, scratch={})
    assert_alike(weights, expected, outcome, cut)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("word", ["2:4", "1:2", "5:16"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_all_that_may_go_of_every_group_goes(dtype, word, turned, ties, device):
    groups = parse_structure(word)
    weights = matrices(SHAPES, dtype, device, turned=turned, ties=ties)
    k = groups.most(SHAPES, groups.sparsity)
    more = {"groups": groups, "score": magnitude, "inputs": [()] * 3}
    expected = [weight.clone() for weight in weights]
    cut = plain_groups.zero_in_groups_(expected, k, **more)
    for kernel in ("magnitude", None):
        actual = [weight.clone() for weight in weights]
        assert all(fast_groups.supports(weight, weight, groups) for weight in actual)
        assert_alike(actual, expected, fast._zero_all_on_gpu_(actual, k, **more, kernel=kernel), cut)
    outcome = fast.zero_in_groups_(weights, k, **more, kernel="magnitude", scratch={})
    assert_alike(weights, expected, outcome, cut)


@pytest.mark.parametrize("word", ["2:4", "2:3", "20:32"])
def test_groups_that_the_kernel_does_not_take_are_taken_without_it(word, device):
    groups = parse_structure(word)
    weights = matrices([(5, 31), (4, 64)], torch.float32, device)
    expected = [weight.clone() for weight in weights]
    more = {"groups": groups, "score": magnitude, "inputs": [()] * 2}
    k = groups.most([(5, 31), (4, 64)], groups.sparsity)
    cut = plain_groups.zero_in_groups_(expected, k, **more)
    assert not fast_groups.supports(weights[0], weights[0], groups)
    assert_alike(weights, expected, fast._zero_all_on_gpu_(weights, k, **more, kernel="magnitude"), cut)


@pytest.mark.parametrize("dtype", DTYPES[:2])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kernel", ["magnitude", None])
def test_on_the_ramp_a_copy_of_the_scores_selects_the_same(dtype, turned, kernel, device):
    weights = matrices(SHAPES, dtype, device, turned=turned, ties=True)
    more = {"groups": Groups(2, 4), "score": magnitude, "inputs": [()] * 3}
    scratch: dict = {}
    for k in (0, 1, 2000, 4500):
        expected = [weight.clone() for weight in weights]
        cut = plain_groups.zero_in_groups_(expected, k, **more)
        outcome = fast._zero_from_copy_(weights, k, **more, kernel=kernel, scratch=scratch)
        assert_alike(weights, expected, outcome, cut)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("turned", [False, True])
def test_the_copy_is_the_twins(dtype, turned, device):
    score = matrices([(24, 40)], dtype, device, turned=turned, ties=True)[0]
    score[3, 5], score[3, 6], score[4, 4] = float("nan"), -float("inf"), -0.0
    for absolute in (False, True):
        found = fast_groups.scores_that_may_go(score, Groups(2, 4), absolute=absolute)
        twin = plain_groups.scores_that_may_go(score.abs() if absolute else score, Groups(2, 4))
        torch.testing.assert_close(found, twin.float(), rtol=0, atol=0, equal_nan=True)
        assert found.stride() == score.stride()
