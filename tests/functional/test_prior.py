"""The prior's functions agree with the density they come from, and stay finite."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mgpp.functional.prior import (
    add_prior_gradient_,
    half_width,
    log_prior,
    prior_density,
    prior_gradient,
    shrink_by_prior_,
    spike_probability,
)

PAPER = {"slab_prob": 1e-7, "spike_var": 1e-10, "slab_var": 0.05}

slab_probs = st.floats(-12, math.log10(0.5)).map(lambda e: 10**e)
spike_vars = st.floats(-12, -4).map(lambda e: 10**e)
slab_vars = st.floats(-3, 1).map(lambda e: 10**e)
magnitudes = st.floats(-12, 3).map(lambda e: 10**e)
signs = st.sampled_from([-1.0, 1.0])


@given(magnitude=magnitudes, sign=signs, slab_prob=slab_probs, spike_var=spike_vars, slab_var=slab_vars)
def test_gradient_equals_autograd_of_the_log_density(magnitude, sign, slab_prob, spike_var, slab_var):
    prior = {"slab_prob": slab_prob, "spike_var": spike_var, "slab_var": slab_var}
    weight = torch.tensor(sign * magnitude, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(-log_prior(weight, **prior), weight)
    # Both sides exponentiate log-odds of up to 1e18 ulps: near the half-width their rounding is what differs.
    torch.testing.assert_close(prior_gradient(weight.detach(), **prior), expected, rtol=1e-9, atol=0)


@given(st.data())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gradient_is_finite_for_every_finite_weight(dtype, data):
    bits = 32 if dtype == torch.float32 else 16
    integer = {32: torch.int32, 16: torch.int16}[bits]
    pattern = data.draw(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    weight = torch.tensor([pattern], dtype=integer).view(dtype)
    weight = weight[weight.isfinite()]
    prior = {
        "slab_prob": data.draw(slab_probs),
        "spike_var": data.draw(spike_vars),
        "slab_var": data.draw(slab_vars),
    }
    assert prior_gradient(weight, **prior).isfinite().all()


def test_gradient_is_zero_at_zero_and_odd():
    weight = torch.logspace(-9, 2, 200, dtype=torch.float64)
    assert prior_gradient(torch.zeros(3), **PAPER).eq(0).all()
    torch.testing.assert_close(prior_gradient(-weight, **PAPER), -prior_gradient(weight, **PAPER), rtol=0, atol=0)


def test_density_integrates_to_one():
    prior = {"slab_prob": 0.3, "spike_var": 1e-4, "slab_var": 0.05}
    grid = torch.linspace(-3, 3, 600_001, dtype=torch.float64)
    torch.testing.assert_close(torch.trapezoid(prior_density(grid, **prior), grid).item(), 1.0, rtol=1e-9, atol=0)


@given(slab_prob=slab_probs, spike_var=spike_vars, slab_var=slab_vars)
def test_half_width_is_where_spike_and_slab_are_equally_likely(slab_prob, spike_var, slab_var):
    prior = {"slab_prob": slab_prob, "spike_var": spike_var, "slab_var": slab_var}
    at = torch.tensor(half_width(**prior), dtype=torch.float64)
    torch.testing.assert_close(spike_probability(at, **prior).item(), 0.5, rtol=1e-6, atol=0)


@given(slab_prob=slab_probs, spike_var=spike_vars, slab_var=slab_vars)
def test_half_width_is_the_papers_threshold(slab_prob, spike_var, slab_var):
    spike, slab = math.sqrt(spike_var), math.sqrt(slab_var)
    inside = math.log((1 - slab_prob) / slab_prob * slab / spike)
    expected = math.sqrt(2) * spike * slab / math.sqrt(slab_var - spike_var) * math.sqrt(inside)
    assert half_width(slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var) == pytest.approx(expected, rel=1e-9)


def test_half_width_is_zero_where_the_slab_always_wins():
    assert half_width(slab_prob=0.999, spike_var=0.04, slab_var=0.05) == 0.0


def test_half_width_at_the_papers_values_is_about_one_adam_step():
    assert half_width(**PAPER) == pytest.approx(7.2e-5, rel=0.01)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(0,), (), (1,), (3, 5), (257, 311)])
def test_adding_in_place_equals_the_gradient_added(dtype, shape, device):
    weight = (torch.randn(shape, dtype=torch.float64, device=device) * 1e-3).to(dtype)
    grad = torch.randn(shape, dtype=torch.float64, device=device).to(dtype)
    expected = (grad.double() + prior_gradient(weight, **PAPER).double() * 1e-4).to(dtype)
    add_prior_gradient_([weight], [grad], scale=1e-4, **PAPER)
    torch.testing.assert_close(grad, expected)


def test_adding_in_place_reaches_every_element_of_a_transposed_weight(device):
    stored = torch.randn(300, 500, device=device) * 1e-3
    grad = torch.zeros(500, 300, device=device)
    add_prior_gradient_([stored.t()], [grad], scale=1.0, **PAPER)
    torch.testing.assert_close(grad, prior_gradient(stored.t().contiguous(), **PAPER))


STRONG = {"slab_prob": 0.01, "spike_var": 1e-4, "slab_var": 0.05}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(0,), (), (1,), (3, 5), (257, 311)])
def test_shrinking_in_place_is_the_decoupled_formula(dtype, shape, device):
    weight = (torch.randn(shape, dtype=torch.float64, device=device) * 0.05).to(dtype)
    moment = (torch.rand(shape, dtype=torch.float64, device=device) * 1e-4).to(dtype)
    w, v = weight.double(), moment.double()
    in_spike = spike_probability(w, **STRONG)
    stiffness = in_spike / STRONG["spike_var"] + (1 - in_spike) / STRONG["slab_var"]
    expected = w * (1 - (3e-7 * stiffness / ((v / 0.3).sqrt() + 1e-8)).clamp(max=1))
    shrink_by_prior_([weight], [moment], scales=[3e-7], corrections=[0.3], eps=[1e-8], **STRONG)
    torch.testing.assert_close(weight, expected.to(dtype))


def test_no_weight_moves_further_than_it_may(device):
    weight = torch.tensor([0.0, 1e-4, -0.03, 0.5, -2.0], device=device)
    moment = torch.tensor([1.0, 1e-12, 1e-12, 1e-12, 1.0], device=device)
    free, limited = weight.clone(), weight.clone()
    options = {"scales": [1e-6], "corrections": [1.0], "eps": [1e-8], **STRONG}
    shrink_by_prior_([free], [moment], **options)
    shrink_by_prior_([limited], [moment], most=1e4, **options)
    moved = (weight - limited).abs()
    torch.testing.assert_close(moved[2:4], torch.full((2,), 1e-2, device=device))  # 1e-6 · 1e4
    torch.testing.assert_close(limited[[0, 1, 4]], free[[0, 1, 4]])


@given(st.data())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_shrinking_never_turns_grows_or_ends_a_weight(dtype, data):
    integer = torch.int32 if dtype == torch.float32 else torch.int16
    limits = torch.iinfo(integer)
    pattern = data.draw(st.integers(limits.min, limits.max))
    weight = torch.tensor([pattern], dtype=integer).view(dtype)
    weight = weight[weight.isfinite()]
    before = weight.clone()
    moment = torch.tensor([data.draw(st.sampled_from([0.0, 1e-30, 1e-8, 1.0, 1e30]))])[: weight.numel()]
    shrink_by_prior_(
        [weight],
        [moment],
        scales=[data.draw(st.sampled_from([0.0, 1e-12, 1e-3, 1e20]))],
        corrections=[data.draw(st.sampled_from([1e-3, 1.0]))],
        eps=[data.draw(st.sampled_from([0.0, 1e-8]))],
        slab_prob=data.draw(slab_probs),
        spike_var=data.draw(spike_vars),
        slab_var=data.draw(slab_vars),
        most=data.draw(st.sampled_from([1e-9, 1.0, 1e9, math.inf])),
    )
    assert weight.isfinite().all()
    torch.testing.assert_close(weight.sign(), before.sign(), rtol=0, atol=0)
    assert (weight.abs() <= before.abs()).all()


def test_shrinking_reaches_every_element_of_a_transposed_weight(device):
    stored, moment = torch.randn(300, 500, device=device) * 0.05, torch.rand(300, 500, device=device) * 1e-4
    copy = stored.t().contiguous()
    options = {"scales": [3e-7], "corrections": [1.0], "eps": [1e-8], **STRONG}
    shrink_by_prior_([stored.t()], [moment.t()], **options)
    shrink_by_prior_([copy], [moment.t().contiguous()], **options)
    torch.testing.assert_close(stored.t(), copy)
