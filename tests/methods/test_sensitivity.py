"""What the sensitivity scores see of a training step."""

import pytest
import torch

import mgpp
from tests.test_contract import RAMP, STEPS
from tests.toy import Toy, assert_identical, batches, weights_of


def started(method, **options):
    model = Toy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0, **options)
    pruner = mgpp.Pruner(model, method, total_steps=STEPS, train_size=64)
    pruner.attach(optimizer)
    return model, optimizer, pruner


def test_the_gradient_is_that_before_the_step_and_the_weight_that_after_it():
    model, optimizer, pruner = started(mgpp.PLATON(**RAMP))
    model(**next(batches()))["loss"].backward()
    grads = [weight.grad.clone() for weight in pruner.targets.values()]
    optimizer.step()
    expected = [(weight * grad).abs() / 2 for weight, grad in zip(pruner.targets.values(), grads, strict=True)]
    torch.testing.assert_close(pruner.memory.get("window"), [value.detach() for value in expected])


def test_a_weight_without_a_gradient_keeps_what_was_known_of_it():
    model, optimizer, pruner = started(mgpp.PLATON(**RAMP))
    data, idle = batches(), model.blocks[0][0].weight
    for t in range(1, 8):
        model(**next(data))["loss"].backward()
        kinds = ("window", "sensitivity", "uncertainty")
        if t > 4:
            idle.grad = None
            before = [pruner.memory.get(kind)[0].clone() for kind in kinds]
        optimizer.step()
        optimizer.zero_grad()
        if t > 4:
            torch.testing.assert_close([pruner.memory.get(kind)[0] for kind in kinds], before, rtol=0, atol=0)
    assert all(value.any() for value in before)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", [mgpp.PLATON, mgpp.ITP])
def test_a_scaled_gradient_is_judged_unscaled(kind, fused):
    """Scale 2⁷ is exact in binary, so a GradScaler must not change a single bit."""
    ends = []
    for scaler in (None, torch.amp.GradScaler("cpu", init_scale=128.0)):
        model, optimizer, pruner = started(kind(**RAMP), fused=fused)
        data = batches()
        for _ in range(STEPS):
            loss = model(**next(data))["loss"]
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            optimizer.zero_grad()
        ends.append((weights_of(model), pruner.memory.get("sensitivity")))
    assert_identical(ends[1][0], ends[0][0])
    torch.testing.assert_close(ends[1][1], ends[0][1], rtol=0, atol=0)


def test_a_decoupled_prior_stays_out_of_the_sensitivity_and_a_coupled_one_does_not():
    windows = {}
    for name, prior in {
        "none": None,
        "decoupled": mgpp.Prior(spike_var=1e-4, decoupled=True, strength=1e-9),
        "coupled": mgpp.Prior(spike_var=1e-4),
    }.items():
        model, optimizer, pruner = started(mgpp.ITP(**{**RAMP, "start": 0}, prior=prior))
        model(**next(batches()))["loss"].backward()
        optimizer.step()
        windows[name] = torch.cat([value.flatten() for value in pruner.memory.get("window")])
    torch.testing.assert_close(windows["decoupled"], windows["none"])
    assert (windows["coupled"] > 2 * windows["none"]).any()


@pytest.mark.parametrize("name", ["beta1", "beta2"])
@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
def test_a_share_of_the_past_outside_0_and_1_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name}={value}"):
        mgpp.PLATON(sparsity=0.5, **{name: value})
