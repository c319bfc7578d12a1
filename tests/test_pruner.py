"""One training step, in every way people take it."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import mgpp
from mgpp.sharding.parts import Turn
from tests.toy import NUM_WEIGHTS, Toy, assert_identical, batches, weights_of

STEPS = 20
RAMP = {"sparsity": 0.75, "start": 4, "end": 14, "every": 3}
METHOD = mgpp.MGPP(**RAMP, spike_var=1e-4)


def make_pruner(model: nn.Module, method: mgpp.MGPP | mgpp.GMP | mgpp.L2 = METHOD, **more) -> mgpp.Pruner:
    return mgpp.Pruner(model, method, **{"total_steps": STEPS, "train_size": 64, **more})


def adamw(model: nn.Module, **more) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), **{"lr": 1e-2, "weight_decay": 0.0, **more})


def train(model: nn.Module, pruner: mgpp.Pruner, optimizer: torch.optim.Optimizer, steps: int = STEPS) -> None:
    data = batches()
    for _ in range(steps):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()


def trained_by_hooks() -> dict[str, torch.Tensor]:
    model = Toy()
    pruner, optimizer = make_pruner(model), adamw(model)
    pruner.attach(optimizer)
    train(model, pruner, optimizer)
    return weights_of(model)


def test_explicit_calls_and_hooks_give_the_same_weights():
    model = Toy()
    pruner, optimizer, data = make_pruner(model), adamw(model), batches()
    for _ in range(STEPS):
        model(**next(data))["loss"].backward()
        pruner.before_step()
        optimizer.step()
        pruner.after_step()
        optimizer.zero_grad()
    assert_identical(weights_of(model), trained_by_hooks())


def test_gradient_accumulation_adds_the_prior_once_a_step():
    model = Toy()
    pruner, optimizer, data = make_pruner(model), adamw(model), batches(size=4)
    pruner.attach(optimizer)
    for _ in range(STEPS):
        for _ in range(2):
            (model(**next(data))["loss"] / 2).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert pruner.t == STEPS
    expected = trained_by_hooks()
    for name, value in weights_of(model).items():
        # The halves' sum rounds differently from the whole batch's mean; Adam's division lets that grow a little.
        torch.testing.assert_close(value, expected[name], rtol=1e-3, atol=1e-4, msg=name)


def test_the_prior_is_added_after_clipping_so_clipping_never_sees_it():
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    pruner = make_pruner(model, mgpp.MGPP(sparsity=0.0, start=0, end=14, spike_var=1e-4))
    pruner.attach(optimizer)
    model(**next(batches()))["loss"].backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    clipped = {name: param.grad.clone() for name, param in model.named_parameters()}
    before = weights_of(model)
    optimizer.step()
    from mgpp.functional.prior import prior_gradient

    for name, param in model.named_parameters():
        pull = 0.0
        if name in pruner.targets:
            pull = prior_gradient(before[name], slab_prob=1e-7, spike_var=1e-4, slab_var=0.05) / 64
        torch.testing.assert_close(param.detach(), before[name] - (clipped[name] + pull))


@pytest.mark.parametrize("fused", [False, True])
def test_a_scaled_gradient_gets_a_scaled_prior(fused):
    """Scale 2⁷ is exact in binary, so a GradScaler must not change a single bit."""
    plain, scaled = Toy(), Toy()
    for model, scaler in ((plain, None), (scaled, torch.amp.GradScaler("cpu", init_scale=128.0))):
        pruner, optimizer, data = make_pruner(model), adamw(model, fused=fused), batches()
        pruner.attach(optimizer)
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
    assert_identical(weights_of(scaled), weights_of(plain))


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_skipped_by_the_scaler_does_not_count(fused):
    model = Toy()
    pruner, optimizer, data = make_pruner(model), adamw(model, fused=fused), batches()
    pruner.attach(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    for step in range(6):
        scaler.scale(model(**next(data))["loss"]).backward()
        before = weights_of(model)
        if step == 2:
            model.blocks[0][0].weight.grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if step == 2:
            assert_identical(weights_of(model), before)
    assert pruner.t == 5


def test_explicit_calls_with_a_scaler_follow_its_skips():
    hooked, explicit = Toy(), Toy()
    for model, attach in ((hooked, True), (explicit, False)):
        pruner, optimizer, data = make_pruner(model), adamw(model), batches()
        if attach:
            pruner.attach(optimizer)
        scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
        for step in range(8):
            scaler.scale(model(**next(data))["loss"]).backward()
            if step == 2:
                model.blocks[0][0].weight.grad[0, 0] = float("inf")
            scaler.unscale_(optimizer)
            if not attach:
                pruner.before_step(grad_scale=1.0)
            scaler.step(optimizer)
            scale = scaler.get_scale()
            scaler.update()
            if not attach:
                pruner.after_step(skipped=scaler.get_scale() < scale)
            optimizer.zero_grad()
        assert pruner.t == 7
    assert_identical(weights_of(explicit), weights_of(hooked))


def test_bf16_autocast_and_bf16_weights_prune_exactly():
    for cast in (False, True):
        model = Toy()
        if cast:
            model.bfloat16()
        pruner, optimizer, data = make_pruner(model), adamw(model), batches()
        pruner.attach(optimizer)
        for _ in range(STEPS):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(**next(data))["loss"]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        assert sum(pruner.zeros.values()) == int(0.75 * NUM_WEIGHTS)


def test_tied_weights_are_pruned_and_counted_once():
    model = Toy()
    model.blocks[1][0].weight = model.blocks[0][0].weight
    pruner, optimizer = make_pruner(model), adamw(model)
    pruner.attach(optimizer)
    assert pruner.num_weights == NUM_WEIGHTS - 96
    train(model, pruner, optimizer)
    assert sum(pruner.zeros.values()) == int(0.75 * (NUM_WEIGHTS - 96))


def test_frozen_weights_are_left_alone():
    model = Toy()
    model.blocks[0][0].weight.requires_grad_(False)
    before = model.blocks[0][0].weight.clone()
    pruner, optimizer = make_pruner(model), adamw(model)
    pruner.attach(optimizer)
    train(model, pruner, optimizer)
    assert pruner.num_weights == NUM_WEIGHTS - 96
    torch.testing.assert_close(model.blocks[0][0].weight, before, rtol=0, atol=0)


def test_a_weight_without_a_gradient_is_not_moved_by_the_prior_but_can_be_pruned():
    model = Toy()
    pruner, optimizer, data = make_pruner(model), adamw(model), batches()
    pruner.attach(optimizer)
    idle = model.blocks[0][0].weight
    before = idle.detach().clone()
    for _ in range(STEPS):
        model(**next(data))["loss"].backward()
        idle.grad = None
        optimizer.step()
        optimizer.zero_grad()
    kept = idle != 0
    assert 0 < int(kept.sum()) < idle.numel()
    torch.testing.assert_close(idle[kept].detach(), before[kept], rtol=0, atol=0)


def test_a_decoupled_penalty_follows_each_groups_learning_rate():
    model = Toy()
    fast, slow = list(model.blocks[0].parameters()), [*model.blocks[1].parameters(), *model.head.parameters()]
    optimizer = torch.optim.SGD([{"params": fast, "lr": 0.1}, {"params": slow, "lr": 0.01}])
    pruner = make_pruner(model, mgpp.L2(sparsity=0.0, weight=0.5, decoupled=True))
    pruner.attach(optimizer)
    for param in model.parameters():
        param.grad = torch.zeros_like(param)
    before = weights_of(model)
    optimizer.step()
    for name, weight in pruner.targets.items():
        lr = 0.1 if name.startswith("blocks.0") else 0.01
        torch.testing.assert_close(weight.detach(), before[name] * (1 - lr * 0.5))


def test_a_decoupled_penalty_follows_the_learning_rate_of_a_state_loaded_after_attaching():
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pruner = make_pruner(model, mgpp.L2(sparsity=0.0, weight=0.5, decoupled=True))
    pruner.attach(optimizer)
    optimizer.load_state_dict(torch.optim.SGD(model.parameters(), lr=0.01).state_dict())
    for param in model.parameters():
        param.grad = torch.zeros_like(param)
    before = weights_of(model)
    optimizer.step()
    for name, weight in pruner.targets.items():
        torch.testing.assert_close(weight.detach(), before[name] * (1 - 0.01 * 0.5))


def test_coupled_l2_is_the_optimizers_own_coupled_weight_decay():
    ours, theirs = Toy(), Toy()
    method = mgpp.L2(sparsity=0.0, weight=0.05)
    pruner, optimizer = make_pruner(ours, method), torch.optim.Adam(ours.parameters(), lr=1e-2)
    pruner.attach(optimizer)
    decayed = [theirs.get_parameter(name) for name in pruner.targets]
    rest = [param for name, param in theirs.named_parameters() if name not in pruner.targets]
    reference = torch.optim.Adam([{"params": decayed, "weight_decay": 0.05}, {"params": rest}], lr=1e-2)
    for model, opt in ((ours, optimizer), (theirs, reference)):
        train(model, pruner, opt, steps=5)
    for name, value in weights_of(theirs).items():
        torch.testing.assert_close(weights_of(ours)[name], value)


def test_each_turn_of_an_engine_finds_its_own_tables_again():
    pruner = make_pruner(Toy())
    pruner._step(1).scratch["prior"] = "of all"
    for t, known in ((1, {}), (2, {"prior": "of its own"})):
        for indices in ([0, 2], [1, 3]):
            scratch = pruner._step(t, turn=Turn(indices, is_last=indices == [1, 3])).scratch
            assert scratch == known
            scratch["prior"] = "of its own"
    assert pruner._step(2).scratch["prior"] == "of all"


def test_a_decoupled_penalty_without_an_optimizer_says_what_it_needs():
    model = Toy()
    pruner = make_pruner(model, mgpp.L2(**RAMP, decoupled=True))
    model(**next(batches()))["loss"].backward()
    pruner.before_step()
    with pytest.raises(RuntimeError, match=r"pruner\.attach\(optimizer\)"):
        pruner.after_step()


def test_held_weights_never_move_again_whatever_the_momentum():
    model = Toy()
    pruner, optimizer, data = make_pruner(model, mgpp.GMP(**RAMP, hold=True)), adamw(model), batches()
    pruner.attach(optimizer)
    gone = {name: torch.zeros_like(weight, dtype=torch.bool) for name, weight in pruner.targets.items()}
    for _ in range(STEPS):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        for name, weight in pruner.targets.items():
            assert (weight[gone[name]] == 0).all()
            gone[name] = weight.detach() == 0
    assert sum(pruner.zeros.values()) == int(0.75 * NUM_WEIGHTS)


def test_pruned_weights_grow_back_between_events():
    model = Toy()
    pruner, optimizer = make_pruner(model), adamw(model)
    pruner.attach(optimizer)
    train(model, pruner, optimizer, steps=10)
    assert sum(pruner.zeros.values()) < int(pruner.schedule.sparsity_at(9) * NUM_WEIGHTS)


def test_a_gradient_that_is_not_finite_refuses_the_step():
    model = Toy()
    pruner, optimizer = make_pruner(model), adamw(model)
    pruner.attach(optimizer)
    train(model, pruner, optimizer, steps=5)
    before = weights_of(model)
    (model(**next(batches()))["loss"] * float("nan")).backward()
    with pytest.raises(FloatingPointError, match="step 6"):
        optimizer.step()
    assert_identical(weights_of(model), before)
    assert pruner.t == 5


def test_a_closure_is_refused_because_the_prior_would_be_lost():
    model = Toy()
    pruner, optimizer = make_pruner(model), adamw(model)
    pruner.attach(optimizer)
    with pytest.raises(ValueError, match="closure"):
        optimizer.step(lambda: model(**next(batches()))["loss"])


def test_a_weight_the_optimizer_does_not_have_is_named():
    model = Toy()
    pruner = make_pruner(model)
    with pytest.raises(ValueError, match=r"blocks\.0\.0\.weight"):
        pruner.attach(torch.optim.SGD(model.head.parameters(), lr=0.1))


def test_attaching_twice_is_refused_and_detaching_undoes_it():
    model = Toy()
    pruner, optimizer = make_pruner(model), adamw(model)
    pruner.attach(optimizer)
    with pytest.raises(RuntimeError, match="attached already"):
        pruner.attach(optimizer)
    pruner.detach()
    train(model, pruner, optimizer, steps=3)
    assert pruner.t == 0
    pruner.attach(optimizer)
    train(model, pruner, optimizer, steps=3)
    assert pruner.t == 3


def test_a_run_that_skipped_its_last_steps_is_finished_exactly():
    model = Toy()
    method = mgpp.GMP(sparsity=0.75, start=4, end=STEPS, every=3)
    pruner, optimizer = make_pruner(model, method), adamw(model)
    pruner.attach(optimizer)
    train(model, pruner, optimizer, steps=STEPS - 1)
    assert sum(pruner.zeros.values()) < int(0.75 * NUM_WEIGHTS)
    pruner.finish()
    assert sum(pruner.zeros.values()) == int(0.75 * NUM_WEIGHTS)


def test_a_ramp_that_ends_with_the_run_reaches_its_target_at_the_last_step():
    model = Toy()
    pruner, optimizer = make_pruner(model, mgpp.GMP(sparsity=0.75, start=4, end=STEPS, every=7)), adamw(model)
    pruner.attach(optimizer)
    train(model, pruner, optimizer)
    assert sum(pruner.zeros.values()) == int(0.75 * NUM_WEIGHTS)


def test_loading_the_state_of_another_run_shows_the_difference():
    state = make_pruner(Toy()).state_dict()
    other = make_pruner(Toy(), mgpp.MGPP(**{**RAMP, "sparsity": 0.5}, spike_var=1e-4))
    with pytest.raises(ValueError, match=r"sparsity: saved 0\.75, now 0\.5"):
        other.load_state_dict(state)
    with pytest.raises(ValueError, match="total_steps: saved 20, now 30"):
        make_pruner(Toy(), total_steps=30).load_state_dict(state)


def test_the_prior_asks_for_the_size_of_the_training_set():
    with pytest.raises(ValueError, match="train_size"):
        mgpp.Pruner(Toy(), METHOD, total_steps=STEPS)


@pytest.mark.parametrize("late", [{"every": 15}, {"every": 4, "start": 12}])
def test_a_ramp_without_an_event_on_its_way_is_warned_of(late):
    with pytest.warns(UserWarning, match=r"no event falls between start=\d+ and end=14 with every=\d+") as told:
        make_pruner(Toy(), mgpp.MGPP(**{**RAMP, **late}))
    assert [Path(warning.filename) for warning in told] == [Path(__file__)]


@pytest.mark.parametrize(
    "method",
    [
        METHOD,
        mgpp.MGPP(**{**RAMP, "every": 13}),
        mgpp.MGPP(**{**RAMP, "every": 4, "start": 12, "initial_sparsity": 0.5}),
        mgpp.MGPP(**{**RAMP, "every": 15, "sparsity": 0.0}),
        mgpp.MGPP(**{**RAMP, "every": 15, "start": 13}),  # one shot, as asked
        mgpp.PriorAnnealing(**{**RAMP, "every": 15}),
    ],
)
def test_a_ramp_with_an_event_or_with_nothing_to_ramp_to_is_not_warned_of(method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_pruner(Toy(), method)
