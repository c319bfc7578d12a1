"""On a CPU the curvature score is the twin's to the last bit. Where torch's operations compare it, they do so by its
square, and by itself what is near a bound."""

import pytest
import torch

from mgpp.functional import score as scores
from mgpp.kernels import curvature, passes
from tests.kernels.test_cpu import assert_selects_alike

pytestmark = pytest.mark.usefixtures("way")

CORRECTION = torch.tensor(0.7)
SHAPES = [(300, 200), (1,), (77,), (513, 511)]  # the last is more than one chunk


def drawn(
    scale: float = 0.05, moment: float = 1e-6
) -> tuple[list[torch.Tensor], list[tuple[torch.Tensor, torch.Tensor]]]:
    weights = [scale * torch.randn(shape) for shape in SHAPES]
    return weights, [(moment * torch.rand(shape) ** 4, CORRECTION) for shape in SHAPES]


def assert_zeroes_alike(weights, inputs, k: int, scratch: dict) -> bool:
    return assert_selects_alike(weights, k, scratch, kernel="curvature", score=scores.curvature, inputs=inputs)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.999])
def test_events_are_those_of_the_twin_and_small_moves_are_predicted(share):
    weights, inputs = drawn()
    k = int(share * sum(weight.numel() for weight in weights))
    scratch: dict = {}
    served = []
    for step in (0.0, 1e-7, 1e-7, 1e-7, 1e-2):
        for weight in weights:
            weight.add_(torch.randn(weight.shape) * step)
        served.append(assert_zeroes_alike(weights, inputs, k, scratch))
    assert served[3]


def test_scores_a_rounding_away_from_the_cut_are_told_apart():
    """Thousands of scores that differ from each other by an ulp or two, and from a bound by less than the margin."""
    steps = torch.arange(6000).int()
    weights = [(torch.tensor(0.01).view(torch.int32) + steps).view(torch.float32)[torch.randperm(6000)]]
    inputs = [(torch.full((6000,), 1e-6) * (1 + 1e-7 * torch.rand(6000)), CORRECTION)]
    for k in (17, 3000, 5990):
        mine, scratch = [weights[0].clone()], {}
        assert_zeroes_alike(mine, inputs, k, scratch)
        mine[0].copy_(weights[0])
        assert_zeroes_alike(mine, inputs, k, scratch)


@pytest.mark.parametrize(
    ("scale", "moment"), [(1e-36, 1e-6), (1e-17, 1e-6), (100.0, 1e-41), (1e17, 1e-6), (1e30, 1e-6)]
)
def test_squares_that_would_underflow_or_overflow_are_left_to_the_score(scale, moment):
    weights, inputs = drawn(scale, moment)
    scratch: dict = {}
    for _ in range(3):
        assert_zeroes_alike([weight.clone() for weight in weights], inputs, 9 * weights[0].numel() // 10, scratch)


@pytest.mark.parametrize(
    ("weight", "moment"),
    [
        (0.0, "inf"),
        (1e-44, "inf"),
        (1e-30, "inf"),
        (0.0, 0.0),
        (1.0, 0.0),
        (1e-42, 1.0),
        (1e9, 1e-45),
        ("nan", 1.0),
        ("inf", 0.0),
    ],
)
def test_single_weights_and_moments_at_the_ends_of_their_range_go_where_they_belong(weight, moment):
    weights, inputs = drawn()
    for some, (moments, _) in zip(weights, inputs, strict=True):
        some.view(-1)[:3], moments.view(-1)[:3] = float(weight), float(moment)
    scratch: dict = {}
    for _ in range(3):
        assert_zeroes_alike([some.clone() for some in weights], inputs, 200_000, scratch)


def test_a_weight_that_has_had_no_gradient_has_one_moment_for_all():
    weights, inputs = drawn()
    inputs[0] = (torch.tensor(1e-7), CORRECTION)
    scratch: dict = {}
    for _ in range(3):
        assert_zeroes_alike([some.clone() for some in weights], inputs, 200_000, scratch)


def test_what_lies_far_from_the_bounds_is_not_scored(monkeypatch):
    weights, inputs = drawn()
    scored = []

    def counted(weight, *beside):
        scored.append(weight.numel())
        return scores.curvature(weight, *beside)

    monkeypatch.setattr(passes, "compiled", lambda: None)
    monkeypatch.setattr(curvature, "curvature", counted)
    scratch: dict = {}
    for _ in range(2):
        assert_zeroes_alike([some.clone() for some in weights], inputs, 200_000, scratch)
    assert 0 < sum(scored) < 2000
