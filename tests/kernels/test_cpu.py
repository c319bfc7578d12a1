"""The CPU's fast paths do what the readable twins do, at every event."""

import math

import pytest
import torch

from mgpp.functional import prior as plain_prior
from mgpp.functional import select as plain
from mgpp.functional.score import curvature
from mgpp.kernels import cpu, passes

pytestmark = pytest.mark.usefixtures("way")

SHAPES = [(3,), (), (0,), (700, 601), (64, 130)]
PAPER = {"slab_prob": 1e-7, "spike_var": 1e-10, "slab_var": 0.05}


def assert_selects_alike(weights, k, scratch, *, kernel="magnitude", **how) -> bool:
    """True if the prediction served. `how`: the score and its inputs."""
    expected = [weight.clone() for weight in weights]
    cut = plain.zero_smallest_(expected, k, **how)
    taken = cpu.zero_smallest_(weights, k, kernel=kernel, scratch=scratch, **how)
    for actual, wanted in zip(weights, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0, equal_nan=True)
    if isinstance(taken, plain.Cut):
        assert taken == cut
        return False
    assert taken.cut() == cut
    assert taken.zeros() == [int((weight == 0).sum()) for weight in expected]
    compiled = passes.compiled()
    return compiled is None or compiled.looks == 1


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 0.999])
def test_small_moves_are_served_by_the_prediction_and_large_ones_are_not(share):
    weights = [torch.randn(shape) * 0.05 for shape in SHAPES]
    k = int(share * sum(weight.numel() for weight in weights))
    scratch: dict = {}
    served = []
    for step in (0.0, 1e-6, 1e-6, 0.5, 1e-6):
        for weight in weights:
            weight.add_(torch.randn(weight.shape) * step)
        served.append(assert_selects_alike(weights, k, scratch))
    assert not served[0]
    assert served[2] or share == 0.0  # the smallest of all moves by more than a band
    assert not served[3] or share == 0.0  # of all that stay the smallest is the cut, wherever it is


def test_a_cut_that_moves_by_two_percent_every_time_is_served_from_the_second_move_on():
    weights = [torch.randn(shape) * 0.05 for shape in SHAPES]
    k = int(0.9 * sum(weight.numel() for weight in weights))
    scratch: dict = {}
    served = []
    for _ in range(5):
        served.append(assert_selects_alike([weight.clone() for weight in weights], k, scratch))
        for weight in weights:
            weight.mul_(0.98)
    assert served == [False, False, True, True, True]


@pytest.mark.parametrize("step", [1e-6, 1e-3, 0.5])
def test_another_score_is_served_as_well(step):
    shapes = [(300, 200), (77,)]
    weights, first, second = ([torch.randn(shape) for shape in shapes] for _ in range(3))
    inputs = [(a.abs_(), b.abs_()) for a, b in zip(first, second, strict=True)]
    scratch: dict = {}
    for _ in range(4):
        expected = [weight.clone() for weight in weights]
        cut = plain.zero_smallest_(expected, 50_000, score=lambda w, a, b: a * b, inputs=inputs)
        taken = cpu.zero_smallest_(
            weights, 50_000, score=lambda w, a, b: a * b, inputs=inputs, kernel="product", scratch=scratch
        )
        assert taken == cut
        for actual, wanted in zip(weights, expected, strict=True):
            torch.testing.assert_close(actual, wanted, rtol=0, atol=0)
        for a, _ in inputs:
            a.mul_(1 + step * torch.rand(a.shape))


@pytest.mark.parametrize("kernel", ["magnitude", "curvature"])
@pytest.mark.parametrize("digits", [None, 3])
def test_event_after_event_is_the_twins(kernel, digits):
    """With `digits` most scores are many weights' score, and which of them go is a matter of their positions."""
    shapes = [(3,), (0,), (16_385,), (), (255,), (330, 257)]
    weights, moments = [0.05 * torch.randn(shape) for shape in shapes], [torch.rand(shape) for shape in shapes]
    how: dict = {}
    if kernel == "curvature":
        how = {"score": curvature, "inputs": [(moment, torch.tensor(0.3)) for moment in moments]}
    total, scratch, served = sum(weight.numel() for weight in weights), {}, 0
    for event in range(40):
        for weight, moment in zip(weights, moments, strict=True):
            weight.add_(torch.randn(weight.shape), alpha=1e-3)
            moment.mul_(0.999).add_(torch.rand(moment.shape), alpha=1e-3)
            if digits is not None:
                weight.copy_(weight.round(decimals=digits))
                moment.copy_(moment.round(decimals=1))
        served += assert_selects_alike(weights, int((0.5 + 0.01 * event) * total), scratch, kernel=kernel, **how)
    assert served > 20 or digits is not None


@pytest.mark.parametrize("k", [0, 1, 30_000, 40_000])
def test_fewer_go_than_are_zero_already(k):
    weights, scratch = [torch.randn(300, 200)], {}
    weights[0][:200] = 0
    for _ in range(2):
        assert_selects_alike(weights, k, scratch)


def test_ties_at_the_predicted_cut_go_by_position():
    weights = [torch.full((500,), 0.5), torch.linspace(0.1, 0.9, 1001)]
    scratch: dict = {}
    for k in (100, 600, 601, 800):
        for weight in weights:
            weight.copy_(weight.sign() * weight.abs().clamp(min=0.3))
        assert_selects_alike(weights, k, scratch)


@pytest.mark.parametrize("k", [-1, 60_000])
def test_one_score_at_least_stays(k):
    weights = [torch.randn(300, 200)]
    before = weights[0].clone()
    with pytest.raises(ValueError, match=f"k={k}: between 0 and 59999"):
        cpu.zero_smallest_(weights, k, scratch={})
    assert torch.equal(weights[0], before)


def test_weights_that_have_never_had_a_gradient_are_scored_with_the_others():
    """Their second moment is one number, whatever their shape."""
    shapes = [(200, 300), (70, 601), (4096,), (3,), (0,)]
    weights, moments = [torch.randn(shape) for shape in shapes], [torch.rand(shape) for shape in shapes]
    for i, moment in {1: 0.0, 2: 0.25, 3: 0.0}.items():
        moments[i] = torch.tensor(moment)
    how = {"kernel": "curvature", "score": curvature, "inputs": [(m, torch.tensor(0.7)) for m in moments]}
    scratch: dict = {}
    for k in (40_000, 50_000, 80_000, 80_000):
        assert_selects_alike(weights, k, scratch, **how)


@pytest.mark.parametrize("scale", [1e-6, 1e-3])
def test_the_priors_gradient_is_the_twins(scale):
    weights, grads = [torch.randn(s) * 1e-4 for s in SHAPES], [torch.randn(s) for s in SHAPES]
    expected = [grad.clone() for grad in grads]
    plain_prior.add_prior_gradient_(weights, expected, scale=scale, **PAPER)
    cpu.add_prior_gradient_(weights, grads, scale=scale, **PAPER)
    for actual, wanted in zip(grads, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cut", [1e-5, 5e-5, 8e-5, 1e-4, 1.2e-4, 1e-2])
@pytest.mark.parametrize("regrown", [False, True])
@pytest.mark.parametrize("slab_prob", [1e-7, 0.99])
def test_of_pruned_weights_too(cut, regrown, slab_prob):
    """Whether the smallest lie where spike and slab meet, or far outside."""
    shape = {**PAPER, "slab_prob": slab_prob}
    weights = [cut * torch.randn(s).mul_(3) for s in SHAPES]
    for weight in weights:
        weight[weight.abs() < cut] = 0
    if regrown:
        weights[3][400, 7] = 1e-6  # in the second of three pieces
    grads, expected = ([torch.zeros(s) for s in SHAPES] for _ in range(2))
    cpu.add_prior_gradient_(weights, grads, scale=1e-4, **shape)
    plain_prior.add_prior_gradient_(weights, expected, scale=1e-4, **shape)
    for actual, wanted in zip(grads, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=0)


@pytest.mark.parametrize("slab_prob", [1e-7, 1e-300, 0.99])
def test_far_out_and_deep_in_the_spike_too(slab_prob):
    shape = {**PAPER, "slab_prob": slab_prob}
    weights = [torch.tensor([0.0, -0.0, 1e-45, 1e-37, 1e-30, 1e-6, -1e-4, 1e-3, -1.0, 1e10, -1e20, 1e30])]
    grads, expected = [torch.zeros(12)], [torch.zeros(12)]
    cpu.add_prior_gradient_(weights, grads, scale=1e-4, **shape)
    plain_prior.add_prior_gradient_(weights, expected, scale=1e-4, **shape)
    torch.testing.assert_close(grads, expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("size", [1e-45, 1e-30, 1e20, 3e38])
def test_of_a_finite_weight_the_priors_gradient_is_finite(size):
    weights, grads = [torch.tensor([size, -size])], [torch.zeros(2)]
    cpu.add_prior_gradient_(weights, grads, scale=1e-4, **PAPER)
    assert grads[0].isfinite().all()


@pytest.mark.parametrize(
    ("spike_var", "slab_var"),
    [(math.nextafter(0.05, 0), 0.05), (1e99, 1e100)],
    ids=["spike and slab are one to float64", "nothing lies outside the spike"],
)
def test_the_priors_gradient_has_no_setting_that_it_fails_on(spike_var, slab_var):
    shape = {"slab_prob": 0.5, "spike_var": spike_var, "slab_var": slab_var}
    weights, grads, expected = [torch.tensor([0.0, 1e-3, 2.0])], [torch.zeros(3)], [torch.zeros(3)]
    plain_prior.add_prior_gradient_(weights, expected, scale=1.0, **shape)
    cpu.add_prior_gradient_(weights, grads, scale=1.0, **shape)
    torch.testing.assert_close(grads, expected)


@pytest.mark.parametrize(("spike_var", "slab_var"), [(1e-30, 1.0), (1e-24, 1.0), (1e-9, 1e20)])
def test_outside_a_spike_however_narrow_only_the_slab_pulls(spike_var, slab_var):
    shape = {"slab_prob": 1e-7, "spike_var": spike_var, "slab_var": slab_var}
    outside = 30 * spike_var**0.5
    weights, grads, expected = [torch.tensor([outside, -0.5, 2.0])], [torch.zeros(3)], [torch.zeros(3)]
    plain_prior.add_prior_gradient_(weights, expected, scale=1.0, **shape)
    cpu.add_prior_gradient_(weights, grads, scale=1.0, **shape)
    torch.testing.assert_close(grads, expected, rtol=1e-5, atol=0)


def test_subnormal_moments_are_scored_as_the_twin_does():
    weights, moments = [torch.tensor([1.0] * 8 + [1e8])], torch.full((9,), 5 * 2.0**-149)
    how = {"score": curvature, "inputs": [(moments, torch.tensor(0.9))]}
    near = plain.zero_smallest_([weights[0].clone()], 8, **how).value
    assert_selects_alike(weights, 8, {"cut": (near, 0.1)}, kernel="curvature", **how)


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_a_weight_that_is_no_number_hides_no_other_from_the_band(odd):
    weights = [torch.randn(400, 200)]  # one piece, and more than is gathered without a band
    weights[0][0, :3] = odd
    scratch: dict = {}
    served = []
    for _ in range(3):
        served.append(assert_selects_alike(weights, 60_000, scratch))
        for weight in weights:
            weight.add_(torch.randn_like(weight), alpha=1e-6)
    assert served[1:] == [True, True]
