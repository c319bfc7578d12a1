"""Where just k weights lie under a floor far below the last cut, those go; elsewhere the floor changes nothing."""

import math

import pytest
import torch

from mgpp.functional import score as scores
from mgpp.kernels import gap, passes, pieces
from tests.kernels.test_cpu import assert_selects_alike

SHAPES = [(3,), (), (0,), (400, 301), (64, 130)]
K = 115_000  # of 128,724
CORRECTION = torch.tensor(0.3)


@pytest.fixture(autouse=True)
def served(monkeypatch) -> list[bool]:
    """Whether the floor served, event by event that asked it."""
    monkeypatch.setattr(passes, "compiled", lambda: None)
    monkeypatch.setattr(pieces, "ROOM", 50_000)  # the large one is three pieces
    events, take_ = [], gap.take_

    def counted(*args):
        taken = take_(*args)
        events.append(taken is not None)
        return taken

    monkeypatch.setattr(gap, "take_", counted)
    return events


class Pruned:
    """Weights just after an event; their second moments, if the score has need of them."""

    def __init__(self, by: str) -> None:
        self.weights = [0.05 * torch.randn(shape) for shape in SHAPES]
        self.moments = [1e-6 * torch.rand(shape) + 1e-7 for shape in SHAPES]
        self.how: dict = {"kernel": by}
        if by == "curvature":
            self.how |= {"score": scores.curvature, "inputs": [(m, CORRECTION) for m in self.moments]}
        self.scratch: dict = {}
        self.event()
        self.kept = self.weights[3].view(-1).nonzero().squeeze(-1)  # where the large one has weights that stayed

    def event(self, k: int = K) -> None:
        assert_selects_alike(self.weights, k, self.scratch, **self.how)

    def grow(self, step: float = 1e-5) -> None:
        for weight in self.weights:
            weight.add_(torch.randn(weight.shape), alpha=step)


both = pytest.mark.parametrize("by", ["magnitude", "curvature"])


@both
def test_the_same_go_again_however_the_cut_has_moved(by, served):
    pruned = Pruned(by)
    for factor in (1.0, 0.7, 1.5, 3.0):
        pruned.grow()
        for weight in pruned.weights:
            weight.mul_(factor)
        pruned.event()
    assert served == [True] * 4


@both
@pytest.mark.parametrize("k", [K - 1, K + 1])
def test_it_is_asked_only_where_as_many_go_as_the_last_time(by, k, served):
    pruned = Pruned(by)
    pruned.grow()
    pruned.event(k)
    assert served == []


@both
@pytest.mark.parametrize("change", ["one has fallen", "one has risen", "one fell and one rose", "all have grown"])
def test_others_than_the_last_time_may_go(by, change, served):
    pruned = Pruned(by)
    weight = pruned.weights[3].view(-1)
    pruned.grow(0.05 if change == "all have grown" else 1e-5)
    if "fell" in change or "fallen" in change:
        weight[pruned.kept[7]] *= 1e-4
    if "rose" in change or "risen" in change:
        weight[(weight.abs() < 1e-3).nonzero()[5]] = 1.0
    pruned.event()
    assert served == [change == "one fell and one rose"]  # again k lie under the floor, though not the same


@both
def test_where_there_is_no_gap_it_is_asked_now_and_then(by, served):
    pruned = Pruned(by)
    for _ in range(2 * gap.AGAIN + 2):
        pruned.grow(0.05)
        pruned.event()
    assert served == [False] * 3
    for _ in range(gap.AGAIN + 3):
        pruned.grow()
        pruned.event()
    assert served == [False] * 3 + [True] * 5
    for k, asked in ((K, False), (K, False), (K + 1, False), (K + 1, True)):  # another target, another gap
        before = len(served)
        pruned.grow(0.05 if not asked else 1e-5)
        pruned.event(k)
        assert (len(served) > before and served[-1]) == asked


@both
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e30, 3e38])
def test_weights_at_the_ends_of_their_range_are_kept(by, odd, served):
    pruned = Pruned(by)
    pruned.grow()
    pruned.weights[3].view(-1)[pruned.kept[:5]] = odd
    pruned.event()
    assert len(served) == 1


@both
def test_a_score_that_is_the_mark_of_what_goes_is_not_taken_for_one(by, served):
    pruned = Pruned(by)
    pruned.grow()
    weight, moment, one = pruned.weights[3].view(-1), pruned.moments[3].view(-1), pruned.kept[0]
    weight[(weight.abs() < 1e-3).nonzero()[5]] = 1.0  # so that with it k would go
    weight[one], moment[one] = (gap.FAR, 1.0) if by == "magnitude" else (math.sqrt(gap.FAR), 1.0)
    pruned.event()
    assert served == [False]


@pytest.mark.parametrize("size", [0.0, 1e-44, 1e-30])
def test_a_moment_that_is_infinite_hides_no_weight(size, served):
    pruned = Pruned("curvature")
    pruned.grow()
    pruned.weights[3].view(-1)[:2], pruned.moments[3].view(-1)[:2] = size, math.inf
    pruned.event()
    assert served == [False]


def test_of_scores_a_rounding_apart_the_smallest_is_the_cut(served):
    pruned = Pruned("curvature")
    near, weight, moment = pruned.kept[:500], pruned.weights[3].view(-1), pruned.moments[3].view(-1)
    for _ in range(20):
        pruned.grow()
        factor = 1 + torch.rand(500)
        weight[near], moment[near] = 0.05 * factor, 2e-7 / factor**2
        pruned.event()
    assert served == [True] * 20


def test_too_many_next_to_the_cut_are_left_to_others(served):
    pruned = Pruned("curvature")
    pruned.grow()
    near = pruned.kept[: 2 * gap.MOST]
    pruned.weights[3].view(-1)[near], pruned.moments[3].view(-1)[near] = 0.05, 2e-7
    pruned.event()
    assert served == [False]


@pytest.mark.parametrize("off", [0, 1, -1, 3, -3])
def test_a_score_at_the_floor_itself_is_left_to_others(off, served):
    pruned = Pruned("curvature")
    pruned.grow()
    floor = pruned.scratch["cut"][0] * gap.FLOOR
    at = torch.tensor(floor).view(torch.int32).add(off).view(torch.float32)
    one = pruned.kept[0]
    pruned.weights[3].view(-1)[one], pruned.moments[3].view(-1)[one] = at, CORRECTION
    pruned.event()
    assert served == [False]


@both
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("k", [K, K + 1])  # by the floor, and by the band around the last cut
def test_another_default_dtype_changes_nothing(by, dtype, k):
    pruned = Pruned(by)
    pruned.grow()
    torch.set_default_dtype(dtype)
    try:
        pruned.event(k)
    finally:
        torch.set_default_dtype(torch.float32)
