"""The mixture prior as a piece: coupled or decoupled, whole or annealed, and inside any method."""

import json
import math

import pytest
import torch
from torch import nn

import mgpp
from mgpp.functional.prior import half_width, spike_probability
from mgpp.methods import from_dict, to_dict
from mgpp.methods.prior import MixturePrior
from mgpp.methods.times import Run
from tests.test_contract import RAMP, STEPS
from tests.toy import NUM_WEIGHTS, Toy, assert_identical, batches, weights_of

SHAPE = {"slab_prob": 1e-3, "spike_var": 1e-4, "slab_var": 0.05}


def trained(method, steps: int = STEPS, **options) -> tuple[nn.Module, mgpp.Pruner]:
    model = Toy()
    optimizer, data = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0), batches()
    pruner = mgpp.Pruner(model, method, **{"total_steps": STEPS, "train_size": 64, **options})
    pruner.attach(optimizer)
    for _ in range(steps):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, pruner


def test_the_decoupled_prior_is_the_formula_after_every_step():
    """lr·η·strength/n · [g/σ0² + (1-g)/σ1²] / (√v̂ + ε), written out in float64, each group with its own lr and ε."""
    ours, theirs = Toy().double(), Toy().double()

    def groups(model: Toy) -> list[dict]:
        rest = [*model.blocks[1].parameters(), *model.head.parameters()]
        return [{"params": [*model.blocks[0].parameters()], "lr": 3e-3, "eps": 1e-4}, {"params": rest}]

    method = mgpp.MGPP(sparsity=0.0, start=5, end=14, **SHAPE, decoupled=True, strength=0.2)
    optimizer, plain = (torch.optim.AdamW(groups(model), lr=1e-2, weight_decay=0) for model in (ours, theirs))
    pruner = mgpp.Pruner(ours, method, total_steps=STEPS, train_size=64)
    pruner.attach(optimizer)
    generator = torch.Generator().manual_seed(0)
    for t in range(1, STEPS + 1):
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            mine.grad = torch.randn(mine.shape, generator=generator, dtype=torch.float64) * 1e-2
            other.grad = mine.grad.clone()
        optimizer.step()
        plain.step()
        for name in pruner.targets:
            weight, state = theirs.get_parameter(name), plain.state[theirs.get_parameter(name)]
            lr, eps = (3e-3, 1e-4) if name.startswith("blocks.0") else (1e-2, 1e-8)
            spread = (state["exp_avg_sq"] / (1 - 0.999**t)).sqrt() + eps
            in_spike = spike_probability(weight.detach(), **SHAPE)
            stiffness = in_spike / SHAPE["spike_var"] + (1 - in_spike) / SHAPE["slab_var"]
            pull = lr * min(1, t / 5) * 0.2 / 64 * stiffness / spread
            assert 0 < pull.min() < 1 < pull.max()
            weight.data.mul_(1 - pull.clamp(max=1))
            torch.testing.assert_close(ours.get_parameter(name), weight, rtol=1e-9, atol=2e-12)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, mgpp.AdamW])
def test_a_prior_with_a_reach_moves_no_weight_further_than_that_share_of_the_learning_rate(kind):
    ours, theirs = Toy(), Toy()
    optimizer, plain = (kind(model.parameters(), lr=1e-2, weight_decay=0) for model in (ours, theirs))
    strong = {**SHAPE, "decoupled": True, "strength": 1e6, "prior_warm_up": False}
    method = mgpp.MGPP(sparsity=0.0, start=0, end=1, reach=0.1, **strong)
    pruner = mgpp.Pruner(ours, method, total_steps=STEPS, train_size=64)
    pruner.attach(optimizer)
    for model, stepping in ((ours, optimizer), (theirs, plain)):
        model(**next(batches()))["loss"].backward()
        stepping.step()
    moved = torch.cat([(weight - theirs.get_parameter(name)).flatten() for name, weight in pruner.targets.items()])
    assert moved.abs().max().item() == pytest.approx(1e-3, rel=1e-3)
    assert (moved.abs() > 0.99e-3).float().mean() > 0.9


def test_the_decoupled_prior_leaves_the_moments_to_the_loss():
    model = Toy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
    pruner = mgpp.Pruner(model, mgpp.MGPP(**RAMP, **SHAPE, decoupled=True), total_steps=STEPS, train_size=64)
    pruner.attach(optimizer)
    model(**next(batches()))["loss"].backward()
    before = [param.grad.clone() for param in model.parameters()]
    optimizer.step()
    torch.testing.assert_close([param.grad for param in model.parameters()], before, rtol=0, atol=0)


def test_only_pruning_makes_zeros_however_strong_the_prior():
    _, pruner = trained(mgpp.MGPP(sparsity=0.2, start=4, end=14, spike_var=1e-4, decoupled=True, strength=1e9))
    assert sum(pruner.zeros.values()) == int(0.2 * NUM_WEIGHTS)


def test_no_strength_is_no_prior():
    model, _ = trained(mgpp.MGPP(**RAMP, **SHAPE, strength=0.0))
    plain, _ = trained(mgpp.GMP(**RAMP))
    assert_identical(weights_of(model), weights_of(plain))


def test_twice_the_strength_is_half_the_training_set():
    strong, _ = trained(mgpp.MGPP(**RAMP, **SHAPE, strength=2.0), train_size=64)
    small, _ = trained(mgpp.MGPP(**RAMP, **SHAPE), train_size=32)
    assert_identical(weights_of(strong), weights_of(small))


def penalty_of(method) -> MixturePrior:
    return method.recipe(Run(total_steps=STEPS, train_size=64)).penalty


def test_the_slab_probability_falls_on_a_line_over_the_ramp():
    penalty = penalty_of(mgpp.MGPP(**RAMP, slab_prob_start=0.1, slab_prob=1e-4))
    at = {t: penalty.shape(t)["slab_prob"] for t in (1, 4, 9, 14, 20)}
    assert at == pytest.approx({1: 0.1, 4: 0.1, 9: (0.1 + 1e-4) / 2, 14: 1e-4, 20: 1e-4})
    assert penalty.record(9)["half_width"] == half_width(**penalty.shape(9))


def test_the_spikes_deviation_not_its_variance_falls_on_a_line_over_the_ramp():
    penalty = penalty_of(mgpp.ITP(**RAMP, prior=mgpp.Prior(spike_var_start=4e-4, spike_var=1e-4)))
    deviations = [math.sqrt(penalty.shape(t)["spike_var"]) for t in (1, 4, 9, 14, 20)]
    assert deviations == pytest.approx([0.02, 0.02, 0.015, 0.01, 0.01])


def test_the_prior_grows_in_unless_told_to_be_whole_at_once():
    grown = penalty_of(mgpp.MGPP(**RAMP))
    assert [grown.warm_up(t) for t in (1, 2, 4, 20)] == [0.25, 0.5, 1.0, 1.0]
    assert penalty_of(mgpp.MGPP(**RAMP, prior_warm_up=False)).warm_up(1) == 1.0
    assert penalty_of(mgpp.PLATON(**RAMP, prior=mgpp.Prior(warm_up=False))).warm_up(1) == 1.0


@pytest.mark.parametrize("decoupled", [False, True])
def test_a_prior_that_ends_with_the_ramp_pulls_no_more(decoupled):
    penalty = penalty_of(mgpp.PLATON(**RAMP, prior=mgpp.Prior(after_ramp=False)))
    assert [penalty.warm_up(t) for t in (13, 14, 15, 20)] == [1.0, 1.0, 0.0, 0.0]

    prior = {**SHAPE, "decoupled": decoupled}
    runs = [
        trained(mgpp.ITP(**RAMP, prior=mgpp.Prior(**prior, after_ramp=after)), steps=steps)[0]
        for after, steps in ((True, 14), (False, 14), (True, 15), (False, 15))
    ]
    assert_identical(weights_of(runs[0]), weights_of(runs[1]))
    assert any(not torch.equal(a, b) for a, b in zip(runs[2].parameters(), runs[3].parameters(), strict=True))


def test_a_fixed_mask_is_that_of_the_ramps_end_and_only_the_rest_moves_on():
    method = mgpp.MGPP(sparsity=0.75, start=4, end=14, every=7, **SHAPE, fix_after_ramp=True)
    early, _ = trained(method, steps=14)
    late, pruner = trained(method)
    kept = {name: weight != 0 for name, weight in pruner.targets.items()}
    assert kept.keys() == pruner.targets.keys()
    for name, keep in kept.items():
        torch.testing.assert_close(early.get_parameter(name) != 0, keep)
        assert (early.get_parameter(name) != late.get_parameter(name))[keep].all()


def test_regrowing_weights_do_not_keep_the_mask_of_the_ramps_end():
    method = mgpp.MGPP(sparsity=0.3, start=4, end=7, every=7, **SHAPE)
    early, pruner = trained(method, steps=7)
    late, _ = trained(method)
    assert any(((early.get_parameter(n) != 0) != (late.get_parameter(n) != 0)).any() for n in pruner.targets)


@pytest.mark.parametrize("kind", [mgpp.PLATON, mgpp.ITP])
def test_a_prior_given_to_another_method_is_the_same_prior(kind):
    """At sparsity 0 nothing is pruned: the score plays no part, and the penalties must agree to the bit."""
    ramp = {**RAMP, "sparsity": 0.0}
    own, _ = trained(mgpp.MGPP(**ramp, **SHAPE))
    given, _ = trained(kind(**ramp, prior=mgpp.Prior(**SHAPE)))
    assert_identical(weights_of(given), weights_of(own))


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("slab_prob", 0.0, r"slab_prob=0\.0"),
        ("slab_prob_start", 1.0, r"slab_prob_start=1\.0"),
        ("spike_var", 0.05, r"spike_var=0\.05"),
        ("spike_var", 1e-31, "spike_var=1e-31"),
        ("spike_var_start", 0.06, r"spike_var_start=0\.06"),
        ("slab_var", math.inf, "slab_var=inf"),
        ("strength", -1.0, r"strength=-1\.0"),
        ("strength", math.nan, "strength=nan"),
        ("reach", 0.1, r"reach=0\.1 limits the decoupled prior"),
        ("reach", 0.0, r"reach=0\.0"),
        ("reach", math.nan, "reach=nan"),
        ("strength", "much", "prior: strength='much' is no number"),
        ("colour", "red", "prior has no setting colour"),
    ],
)
def test_a_setting_of_the_prior_that_makes_no_sense_is_named(setting, value, message):
    with pytest.raises(ValueError, match=message):
        from_dict({"method": "platon", "sparsity": 0.5, "prior": {setting: value}})


def test_a_prior_that_is_none_of_the_kind_is_refused():
    with pytest.raises(ValueError, match="prior='strong'"):
        from_dict({"method": "itp", "sparsity": 0.5, "prior": "strong"})


def test_no_prior_is_written_as_nothing():
    assert "prior" not in to_dict(mgpp.PLATON(sparsity=0.5))
    assert "slab_prob_start" not in to_dict(mgpp.MGPP(sparsity=0.5))
    nested = to_dict(mgpp.PLATON(sparsity=0.5, prior=mgpp.Prior(strength=0.1)))
    assert nested["prior"]["strength"] == 0.1
    assert from_dict(json.loads(json.dumps(nested))).prior == mgpp.Prior(strength=0.1)


def test_a_prior_asks_for_the_size_of_the_training_set_in_any_method():
    with pytest.raises(ValueError, match="train_size"):
        mgpp.Pruner(Toy(), mgpp.PLATON(**RAMP, prior=mgpp.Prior()), total_steps=STEPS)
