"""On a CPU torch's fused step and the prior around it do what the readable step does, to rounding."""

import math

import pytest
import torch

from mgpp import kernels
from mgpp.functional import adamw as plain
from mgpp.functional import prior as plain_prior
from mgpp.functional.adamw import Adam, Parts, Pull
from mgpp.functional.score import curvature
from mgpp.kernels import cpu_step

pytestmark = pytest.mark.usefixtures("way")

SHAPES = [(3,), (), (0,), (700, 601), (64, 130), (1, 1)]
PAPER = {"slab_prob": 1e-7, "spike_var": 1e-9, "slab_var": 0.1}
PULLS = {
    "no prior": None,
    "coupled": Pull(scale=1e-4, **PAPER),
    "decoupled": Pull(scale=1e-4, decoupled=True, **PAPER),
    "held within a reach": Pull(scale=1e-4, decoupled=True, most=1e3, **PAPER),
}


def drawn(spread: float = 0.02) -> list[list[torch.Tensor]]:
    """Weights inside and outside of the spike, zeros among them; gradients; both moments."""
    weights = [spread * torch.randn(shape) ** 5 for shape in SHAPES]
    for weight in weights:
        weight.view(-1)[::3] = 0
    grads, means = ([1e-3 * torch.randn(shape) for shape in SHAPES] for _ in range(2))
    squares = [1e-6 * torch.rand(shape) ** 4 for shape in SHAPES]
    squares[3][:7] = 0
    return [weights, grads, means, squares]


def copied(lists: list[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
    return [[tensor.clone() for tensor in each] for each in lists]


def assert_moved_alike(
    fast: list[torch.Tensor], readable: list[torch.Tensor], before: list[torch.Tensor], *, atol: float = 0.0
) -> None:
    """To a few roundings of what was there and of how far it moved; on the average to much less."""
    for mine, twin, old in zip(fast, readable, before, strict=True):
        off, moved = (mine - twin).abs(), (twin - old).abs()
        assert (off <= 1e-4 * moved + 1e-6 * old.abs() + 1e-7 * moved.sum() / max(1, moved.numel()) + atol).all()
        assert off.sum() <= 1e-6 * (moved.sum() + old.abs().sum())


@pytest.mark.parametrize("pull", PULLS.values(), ids=PULLS)
@pytest.mark.parametrize(("step", "decay"), [(1, 0.0), (7, 0.01), (5000, 0.0)])
def test_a_step_is_the_readable_one(pull, step, decay):
    adam = Adam(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=decay, step=step)
    mine = drawn()
    readable, before = copied(mine), copied(mine)
    targets = [True, True, True, True, False, True]
    kernels.adamw_(*mine, targets, adam, pull, scratch={})
    plain.adamw_(*readable, targets, adam, pull)
    weights, *others = zip(mine, readable, before, strict=True)
    for each in others:
        assert_moved_alike(*each)
    # A step that the prior takes back leaves the roundings of both: far under a learning rate.
    assert_moved_alike(*weights, atol=1e-3 * adam.lr)


@pytest.mark.parametrize("most", [math.inf, 1e3, 1e-2])
@pytest.mark.parametrize(
    ("scale", "spread"),
    [(1e-9, 0.02), (1e-3, 0.02), (1e-9, 1e-4), (1e30, 1e-20), (1e-9, 1e20), (0.0, 1.0), (1e-37, 0.02)],
)
def test_shrinking_is_the_readable_one_and_makes_no_zero(scale, spread, most):
    weights, _, _, squares = drawn(spread)
    (readable, _), (before, _) = copied([weights, squares]), copied([weights, squares])
    numbers = {"corrections": [0.3, torch.tensor(0.5), 0.1, 0.01, 1.0, 0.7], "eps": [1e-8, 0.0, 0.0, 0.0, 1e-8, 1e-8]}
    kernels.shrink_by_prior_(weights, squares, scales=[scale] * 6, most=most, scratch={}, **numbers, **PAPER)
    plain_prior.shrink_by_prior_(readable, squares, scales=[scale] * 6, most=most, **numbers, **PAPER)
    assert_moved_alike(weights, readable, before)
    for weight, old in zip(weights, before, strict=True):
        assert torch.equal(weight == 0, old == 0)
        assert torch.equal(weight.sign(), old.sign())
        assert (weight.abs() <= old.abs()).all()


@pytest.mark.parametrize("most", [math.inf, 1e4, 1e-3])
@pytest.mark.parametrize("shape", [PAPER, {**PAPER, "spike_var": 1e-30}, {**PAPER, "slab_var": 1e20}])
@pytest.mark.parametrize("scale", [0.0, 1e-18, 1e-14, 1e-12, 2e30])
def test_weights_of_every_size_are_shrunk_as_the_readable_form_does(scale, shape, most):
    sizes = torch.cat([torch.zeros(3), torch.logspace(-20, 3, 4000)])
    weights, squares = [torch.cat([sizes, -sizes])], [torch.full((8006,), 1e-8)]
    readable, before = weights[0].clone(), weights[0].clone()
    numbers = {"scales": [scale], "corrections": [1.0], "eps": [1e-8], "most": most}
    kernels.shrink_by_prior_(weights, squares, scratch={}, **numbers, **shape)
    plain_prior.shrink_by_prior_([readable], squares, **numbers, **shape)
    # Near the half-width a rounding of the log-odds is more of what is left.
    torch.testing.assert_close(weights[0], readable, rtol=1e-4, atol=0)
    assert torch.equal(weights[0].signbit(), before.signbit())
    assert (weights[0].abs() <= before.abs()).all()


@pytest.mark.parametrize("most", [math.inf, 1e38])
@pytest.mark.parametrize("weight", [1e-45, 1e-37, 1.0, 1e37])
def test_no_finite_weight_loses_its_sign_or_becomes_nan(weight, most):
    weights = [torch.tensor([weight, -weight])]
    numbers = {"scales": [1e-6], "corrections": [1e-3], "eps": [0.0], "most": most}
    kernels.shrink_by_prior_(weights, [torch.zeros(2)], scratch={}, **numbers, **PAPER)
    assert (weights[0] * torch.tensor([1.0, -1.0]) > 0).all()


def test_however_often_a_weight_is_shrunk_to_nothing_it_stays_where_it_is_no_zero():
    weights = [torch.tensor([0.5, -1e-20, 1e-37, -1e-45, 0.0])]
    before = weights[0].clone()
    numbers = {"scales": [1.0], "corrections": [1.0], "eps": [1e-8]}
    for _ in range(10):
        kernels.shrink_by_prior_(weights, [torch.full((5,), 1e-8)], scratch={}, **numbers, **PAPER)
    assert torch.equal(weights[0].sign(), before.sign())
    assert (weights[0].abs() <= plain_prior.least_size(torch.float32)).all()


@pytest.mark.parametrize("shrink_", [kernels.shrink_by_prior_, plain_prior.shrink_by_prior_])
def test_of_a_weight_shrunk_to_nothing_no_square_and_no_score_is_slow_to_compute(shrink_):
    weight, moment, one = torch.linspace(1e-6, 1e-2, 300), torch.full((300,), 1e-20), torch.ones(())
    how = {"scratch": {}} if shrink_ is kernels.shrink_by_prior_ else {}
    shrink_([weight], [moment], scales=[1.0], corrections=[1.0], eps=[0.0], **how, **PAPER)
    assert (weight == plain_prior.least_size(torch.float32)).all()
    assert torch.minimum(weight.square(), curvature(weight, moment, one)).min() > torch.finfo(torch.float32).tiny


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_another_default_dtype_changes_nothing(dtype):
    adam = Adam(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, step=301)
    mine = drawn()
    expected = copied(mine)
    kernels.adamw_(*expected, [True] * 6, adam, PULLS["held within a reach"], scratch={})
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        kernels.adamw_(*mine, [True] * 6, adam, PULLS["held within a reach"], scratch={})
    finally:
        torch.set_default_dtype(before)
    for actual, wanted in zip(mine, expected, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(actual, wanted, strict=True))


@pytest.mark.parametrize("why", ["dtype", "strides", "one number"])
def test_what_it_does_not_take_the_twin_does(why, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr(cpu_step, "FAST", Parts(step_=never))
    monkeypatch.setattr(cpu_step, "shrink_by_prior_", never)
    weight, square = torch.randn(40, 30), torch.rand(40, 30)
    weight, square = {
        "dtype": (weight.double(), square.double()),
        "strides": (weight.t(), square.t()),
        "one number": (weight, torch.tensor(0.5)),
    }[why]
    numbers = {"scales": [1e-4], "corrections": [0.5], "eps": [1e-8]}
    kernels.shrink_by_prior_([weight], [square], scratch={}, **numbers, **PAPER)
    if why != "one number":
        adam = Adam(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, step=1)
        kernels.adamw_([weight], [weight.clone()], [weight.clone()], [square], [True], adam, scratch={})
