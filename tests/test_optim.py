"""The sampling optimizers sample: on a quadratic the weights' spread is the one the temperature asks for."""

import copy
import math

import pytest
import torch

import mgpp

CHAINS, STEPS = 20_000, 400
CURVATURE, TRAIN_SIZE, TEMPERATURE, LR = 2.0, 50, 3.0, 0.02
TARGET = TEMPERATURE / (TRAIN_SIZE * CURVATURE)  # the variance of exp(-n·u/τ), u = ½·CURVATURE·θ²


def sampled(optimizer_of, steps: int = STEPS) -> torch.Tensor:
    """Where independent chains of one weight each are after so many steps."""
    torch.manual_seed(0)
    weight = torch.zeros(CHAINS, dtype=torch.float64, requires_grad=True)
    optimizer = optimizer_of([weight])
    for _ in range(steps):
        weight.grad = CURVATURE * weight.detach()
        optimizer.step()
    return weight.detach()


def assert_variance(sample: torch.Tensor, expected: float) -> None:
    # A Gaussian sample's variance has the relative standard error √(2/N): five of them.
    assert sample.square().mean().item() == pytest.approx(expected, rel=5 * math.sqrt(2 / CHAINS))


def test_sgld_settles_at_the_posterior():
    sample = sampled(lambda p: mgpp.SGLD(p, lr=LR, train_size=TRAIN_SIZE, temperature=TEMPERATURE))
    # The step is finite: θ' = (1 - lr·a)·θ + noise has this variance, 2% above the target at these values.
    assert_variance(sample, TARGET / (1 - LR * CURVATURE / 2))


@pytest.mark.parametrize("friction", [0.1, 0.5, 1.0])
def test_sghmc_settles_at_the_posterior(friction):
    sample = sampled(lambda p: mgpp.SGHMC(p, lr=LR, train_size=TRAIN_SIZE, temperature=TEMPERATURE, friction=friction))
    # (θ, v) is linear in itself and in the noise: its covariance solves C = M C Mᵀ + Q.
    move = torch.tensor([[1 - LR * CURVATURE, 1 - friction], [-LR * CURVATURE, 1 - friction]], dtype=torch.float64)
    noise = torch.full((2, 2), 2 * friction * LR * TEMPERATURE / TRAIN_SIZE, dtype=torch.float64)
    exact = torch.linalg.solve(torch.eye(4) - torch.kron(move, move), noise.flatten())[0].item()
    assert exact == pytest.approx(TARGET, rel=0.1)  # what is left is the step's size, not the noise's
    assert_variance(sample, exact)


@pytest.mark.parametrize("kind", [mgpp.SGLD, mgpp.SGHMC])
def test_the_spread_falls_with_the_temperature(kind):
    hot = sampled(lambda p: kind(p, lr=LR, train_size=TRAIN_SIZE, temperature=4.0))
    cold = sampled(lambda p: kind(p, lr=LR, train_size=TRAIN_SIZE, temperature=1.0))
    torch.testing.assert_close(hot, 2 * cold)


@pytest.mark.parametrize("kind", [mgpp.SGLD, mgpp.SGHMC])
def test_it_cools_after_the_step_it_is_told(kind):
    """Without a pull, a step's noise is all that moves a weight at rest: its variance falls as 1/(t - cool_after)."""
    torch.manual_seed(0)
    weight = torch.zeros(CHAINS, dtype=torch.float64, requires_grad=True)
    more = {"friction": 1.0} if kind is mgpp.SGHMC else {}  # no momentum left over
    optimizer = kind([weight], lr=LR, train_size=TRAIN_SIZE, temperature=TEMPERATURE, cool_after=2, **more)
    for share in (1, 1, 1, 1 / 2, 1 / 3):
        weight.data.zero_()
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
        assert_variance(weight.detach(), 2 * LR * TEMPERATURE / TRAIN_SIZE * share)


def test_without_heat_they_are_gradient_descent_and_momentum():
    for ours, theirs in (
        (lambda p: mgpp.SGLD(p, lr=LR, train_size=1, temperature=0.0), lambda p: torch.optim.SGD(p, lr=LR)),
        (
            lambda p: mgpp.SGHMC(p, lr=LR, train_size=1, temperature=0.0, friction=0.1),
            lambda p: torch.optim.SGD(p, lr=LR, momentum=0.9),
        ),
    ):
        weights = [torch.linspace(-1, 1, 9, dtype=torch.float64).requires_grad_() for _ in range(2)]
        for weight, optimizer in zip(weights, (ours(weights[:1]), theirs(weights[1:])), strict=True):
            for _ in range(5):
                optimizer.zero_grad()
                (weight**4).sum().backward()
                optimizer.step()
        torch.testing.assert_close(*weights)


@pytest.mark.parametrize("kind", [mgpp.SGLD, mgpp.SGHMC])
def test_saved_and_loaded_they_go_on_with_the_same_bits(kind):
    def start() -> tuple[torch.Tensor, torch.optim.Optimizer]:
        weight = torch.ones(50, requires_grad=True)
        return weight, kind([weight], lr=LR, train_size=TRAIN_SIZE, cool_after=3)

    def walk(weight, optimizer, steps):
        for _ in range(steps):
            weight.grad = weight.detach().clone()
            optimizer.step()

    torch.manual_seed(0)
    whole, optimizer = start()
    walk(whole, optimizer, 4)
    saved = copy.deepcopy(optimizer.state_dict()), whole.detach().clone(), torch.get_rng_state()
    walk(whole, optimizer, 4)
    again, optimizer = start()
    optimizer.load_state_dict(saved[0])
    again.data.copy_(saved[1])
    torch.set_rng_state(saved[2])
    walk(again, optimizer, 4)
    torch.testing.assert_close(again, whole, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": -1.0}, r"lr=-1\.0"),
        ({"train_size": 0}, "train_size=0"),
        ({"temperature": -2.0}, r"temperature=-2\.0"),
        ({"friction": 0.0}, r"friction=0\.0"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        mgpp.SGHMC([torch.zeros(1, requires_grad=True)], **{"lr": 0.1, "train_size": 10, **settings})
