"""The fused prior and the fused AdamW step do what their readable twins do."""

import math
from dataclasses import replace

import pytest
import torch

from mgpp import kernels
from mgpp.functional import adamw as plain_adamw
from mgpp.functional import prior as plain_prior
from mgpp.functional import score as plain_score
from mgpp.functional.adamw import Adam, Pull
from mgpp.functional.select import zero_smallest_ as plain_zero_smallest_
from mgpp.kernels import adamw as fast_adamw
from mgpp.kernels import prior as fast_prior
from mgpp.kernels import score as fast_score
from mgpp.kernels import select
from mgpp.kernels.layout import lay_out
from tests.kernels.test_select import SHAPES, tensors

PAPER = {"slab_prob": 1e-7, "spike_var": 1e-10, "slab_var": 0.05}
ADAM = Adam(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, step=3)
TARGETS = [True, False, True, True, False]
PULLS = {
    "without": None,
    "coupled": Pull(scale=1e-4, **PAPER),
    "decoupled": Pull(scale=1e-4, decoupled=True, **PAPER),
    "bounded": Pull(scale=1e-4, decoupled=True, most=1e3, **PAPER),
}


def close(actual, expected, **tolerance) -> None:
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, **tolerance)


@pytest.mark.parametrize("weight_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("grad_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1e-6, 1e-3])
def test_the_priors_gradient_is_the_twins(weight_dtype, grad_dtype, scale, device):
    weights, grads = tensors(SHAPES, weight_dtype, device, scale=1e-4), tensors(SHAPES, grad_dtype, device)
    expected = [grad.clone() for grad in grads]
    plain_prior.add_prior_gradient_(weights, expected, scale=scale, **PAPER)
    fast_prior.add_prior_gradient_(lay_out("prior", (weights, grads), {}), scale=scale, **PAPER)
    # Near the half-width the log-odds are a difference of numbers near 17, so an ulp of either is 2e-6 of g.
    close(grads, expected, rtol=1e-5 if grads[0].dtype == torch.float32 else 1.6e-2, atol=1e-5)


def test_the_priors_scale_may_be_a_tensor(device):
    weights, grads = tensors(SHAPES, torch.float32, device, scale=1e-4), tensors(SHAPES, torch.float32, device)
    expected = [grad.clone() for grad in grads]
    scale = torch.tensor(3e-4, device=device)
    plain_prior.add_prior_gradient_(weights, expected, scale=scale, **PAPER)
    fast_prior.add_prior_gradient_(lay_out("prior", (weights, grads), {}), scale=scale, **PAPER)
    # Near the half-width the log-odds are a difference of numbers near 17, so an ulp of either is 2e-6 of g.
    close(grads, expected, rtol=1e-5 if grads[0].dtype == torch.float32 else 1.6e-2, atol=1e-5)


def step_tensors(dtype, device):
    moments = tensors(SHAPES, dtype, device, scale=0.01)
    return (
        tensors(SHAPES, dtype, device),
        tensors(SHAPES, dtype, device, scale=0.01),
        moments,
        [moment.abs() * 1e-2 for moment in moments],
    )


@pytest.mark.parametrize("pull", PULLS.values(), ids=PULLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("faster", [1.0, 3.0])
def test_the_fused_step_is_the_twins(pull, dtype, faster, device):
    lists = step_tensors(dtype, device)
    expected = [[tensor.clone() for tensor in tensors_] for tensors_ in lists]
    adam = replace(ADAM, faster=faster)
    plain_adamw.adamw_(*expected, TARGETS, adam, pull)
    layout = lay_out("adamw", lists, {})
    fast_adamw.adamw_(layout, fast_adamw.flags_of(layout, TARGETS, {}), adam, pull)
    # Near the half-width an ulp of the log-odds is 2e-6 of g, and v has its square.
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if pull is not None and dtype == torch.float32 else {}
    if pull is not None and pull.decoupled and dtype == torch.bfloat16:  # the twin rounds between its step and the pull
        tolerance = {"rtol": 1.6e-2, "atol": 1e-4}
    for index in (0, 2, 3):
        close(lists[index], expected[index], **tolerance)


@pytest.mark.parametrize("pull", PULLS.values(), ids=PULLS)
def test_targets_that_learn_faster_step_as_if_that_were_the_rate_and_the_others_as_ever(pull, device):
    lists = step_tensors(torch.float32, device)
    fast, slow = ([[tensor.clone() for tensor in tensors_] for tensors_ in lists] for _ in range(2))
    plain_adamw.adamw_(*lists, TARGETS, replace(ADAM, faster=3.0), pull)
    plain_adamw.adamw_(*fast, TARGETS, replace(ADAM, lr=3 * ADAM.lr), pull)
    plain_adamw.adamw_(*slow, TARGETS, ADAM, pull)
    for index in (0, 2, 3):
        expected = [fast[index][i] if target else slow[index][i] for i, target in enumerate(TARGETS)]
        close(lists[index], expected, rtol=0, atol=0)


def test_the_fused_step_makes_no_number_of_a_nan(device):
    lists = [tensors([(40,)], torch.float32, device) for _ in range(2)]
    lists += [[torch.zeros(40, device=device)] for _ in range(2)]
    lists[1][0][7] = math.nan
    layout = lay_out("adamw", lists, {})
    fast_adamw.adamw_(layout, fast_adamw.flags_of(layout, [True], {}), ADAM, PULLS["decoupled"])
    assert lists[0][0].isnan().nonzero().tolist() == [[7]]


def test_the_readable_step_is_torchs_own_adamw(device):
    weights, grads, _, _ = step_tensors(torch.float32, device)
    params = [torch.nn.Parameter(weight.clone()) for weight in weights]
    reference = torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01)
    means, squares = [torch.zeros_like(w) for w in weights], [torch.zeros_like(w) for w in weights]
    for step in range(1, 4):
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad * step
        reference.step()
        adam = Adam(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, step=step)
        plain_adamw.adamw_(weights, [grad * step for grad in grads], means, squares, TARGETS, adam)
    close(weights, [param.detach() for param in params])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_event_counted_during_the_step_is_the_event_counted_after_it(dtype, device):
    lists = step_tensors(dtype, device)
    mine = [tensor for tensor, target in zip(lists[0], TARGETS, strict=True) if target]
    k = int(0.7 * sum(tensor.numel() for tensor in mine))
    selection = select.Selection(lay_out("select", (mine, mine, mine), {}))
    select.zero_smallest_(selection, k)
    for _ in range(2):
        layout = lay_out("adamw", lists, {})
        flags = fast_adamw.flags_of(layout, TARGETS, {})
        fast_adamw.adamw_(layout, flags, ADAM, PULLS["coupled"], selection=selection)
        expected = [tensor.clone() for tensor in mine]
        cut = plain_zero_smallest_(expected, k)
        outcome = select.zero_smallest_(selection, k, counted=True)
        for actual, wanted in zip(mine, expected, strict=True):
            torch.testing.assert_close(actual, wanted, rtol=0, atol=0)
        assert outcome.cut() == cut


def test_what_was_counted_for_another_target_is_not_counted_with_this_ones(device):
    lists = tuple([value + 1e-3 * torch.rand(1000, device=device)] for value in (1.0, 0.0, 0.0, 1.0))
    mine = lists[0]
    selection = select.Selection(lay_out("select", (mine, mine, mine), {}))
    select.zero_smallest_(selection, 100)
    layout = lay_out("adamw", lists, {})
    flags = fast_adamw.flags_of(layout, [True], {})
    fast_adamw.adamw_(layout, flags, replace(ADAM, lr=1e-6), selection=selection)
    expected = [mine[0].clone()]
    cut = plain_zero_smallest_(expected, 600)
    assert select.zero_smallest_(selection, 600, counted=True).cut() == cut
    torch.testing.assert_close(mine, expected, rtol=0, atol=0)


@pytest.mark.parametrize("counts_again", [True, False])
def test_what_a_step_counted_that_broke_off_before_its_event_is_not_counted_with_the_next(
    counts_again, monkeypatch, device
):
    monkeypatch.setattr(kernels, "_laid_out", lambda key, lists, scratch, fresh=(): lay_out(key, lists, scratch))
    lists = tuple([value + 1e-3 * torch.rand(1000, device=device)] for value in (1.0, 0.0, 0.0, 1.0))
    mine, scratch = lists[0], {}
    kernels.zero_smallest_(mine, 500, scratch=scratch)
    mine[0].copy_(1.0 + 1e-3 * torch.rand(1000, device=device))  # all of them within the window around the cut
    for counts in (True, counts_again):
        count = kernels.count_ahead(500, "magnitude", scratch) if counts else None
        kernels.adamw_(*lists, [True], replace(ADAM, lr=1e-6), count=count, scratch=scratch)
    expected = [mine[0].clone()]
    cut = plain_zero_smallest_(expected, 500)
    assert kernels.zero_smallest_(mine, 500, count=count, scratch=scratch).cut() == cut
    torch.testing.assert_close(mine, expected, rtol=0, atol=0)
    assert not scratch["selection"].holds_count  # or the next step would make ready once more


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_sensitivitys_moments_are_the_twins(spread, dtype, device):
    weights, grads = tensors(SHAPES, dtype, device), tensors(SHAPES, dtype, device)
    fast = [[torch.zeros_like(w, dtype=torch.float32) for w in weights] for _ in range(2 + spread)]
    plain = [[moment.clone() for moment in moments] for moments in fast]
    numbers = {"every": 3, "beta1": 0.85, "beta2": 0.95}
    for t in range(1, 8):
        lists = (weights, [g * t for g in grads], *fast, *fast[1:][: 1 - spread])
        fast_score.observe_sensitivity_(lay_out("sensitivity", lists, {}), t=t, spread=spread, **numbers)
        plain_score.observe_sensitivity_(weights, [g * t for g in grads], *plain, t=t, **numbers)
    for actual, expected in zip(fast, plain, strict=True):
        close(actual, expected)
