"""With lr_power the weights to prune have a learning rate of their own, in the optimizer's step and nowhere else."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Optimizer
from transformers.optimization import Adafactor

import mgpp
from mgpp.functional.schedule import cubic_sparsity
from mgpp.methods import from_dict
from tests.test_contract import RAMP, STEPS
from tests.toy import Toy, assert_identical, batches, weights_of

POWER = 0.5
FREE = {"score": "curvature", "decoupled": True, "strength": 0.1, "spike_var": 1e-4}
Make = Callable[..., Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "AdamW": lambda params: torch.optim.AdamW(params, lr=1e-2, weight_decay=0.1),
    "fused AdamW": lambda params: torch.optim.AdamW(params, lr=1e-2, weight_decay=0.1, fused=True),
    "mgpp.AdamW": lambda params: mgpp.AdamW(params, lr=1e-2, weight_decay=0.1),
    "SGD": lambda params: torch.optim.SGD(params, lr=1e-1, momentum=0.9),
}


def method_for(name: str, **settings: Any) -> mgpp.MGPP:
    return mgpp.MGPP(**{**RAMP, **({} if name == "SGD" else FREE), **settings})


def groups_of(model: nn.Module, pruner: mgpp.Pruner) -> list[dict[str, Any]]:
    targets = set(pruner.targets.values())
    return [{"params": [p for p in model.parameters() if (p in targets) == pruned]} for pruned in (True, False)]


def start(model: nn.Module, make: Make, method: mgpp.MGPP) -> tuple[mgpp.Pruner, Optimizer]:
    pruner = mgpp.Pruner(model, method, total_steps=STEPS, train_size=64)
    optimizer = make(model.parameters())
    pruner.attach(optimizer)
    return pruner, optimizer


def train(model: nn.Module, optimizer: Optimizer, after: Callable[[int], None] = lambda t: None) -> None:
    data = batches(device=next(model.parameters()).device)
    for t in range(1, STEPS + 1):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        after(t)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_it_is_what_a_group_of_their_own_with_that_rate_would_do(name, device):
    fast, by_hand = Toy().to(device), Toy().to(device)
    _, optimizer = start(fast, OPTIMIZERS[name], method_for(name, lr_power=POWER))
    train(fast, optimizer)

    pruner = mgpp.Pruner(by_hand, method_for(name), total_steps=STEPS, train_size=64)
    optimizer = OPTIMIZERS[name](groups_of(by_hand, pruner))
    pruner.attach(optimizer)
    slow = optimizer.param_groups[0]["lr"]

    def set_rate(t: int) -> None:
        left = 1 - cubic_sparsity(t + 1, start=4, end=14, final=0.75)
        optimizer.param_groups[0]["lr"] = slow / left**POWER

    set_rate(0)
    train(by_hand, optimizer, after=set_rate)
    assert_identical(weights_of(fast), weights_of(by_hand))


def test_weights_that_change_their_group_have_that_ones_rate():
    model = Toy()
    pruner, optimizer = start(model, OPTIMIZERS["AdamW"], method_for("AdamW", lr_power=POWER))
    first, second = model.blocks[0][0].weight, model.blocks[1][2].weight
    seen: list[dict[int, float]] = []
    optimizer.register_step_pre_hook(
        lambda optimizer, *_: seen.append(
            {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
        )
    )

    def move(t: int) -> None:
        """First one goes into a group of its own, then another follows it."""
        if t == 9:
            optimizer.param_groups.append({**optimizer.param_groups[0], "lr": 1e-3})
        if t in (9, 15):
            alone = [first] if t == 9 else [first, second]
            optimizer.param_groups[1]["params"] = alone
            others = [param for param in model.parameters() if all(param is not one for one in alone)]
            optimizer.param_groups[0]["params"] = others

    train(model, optimizer, after=move)
    raised = [pruner.schedule.learning_rate_factor(t) for t in range(1, STEPS + 1)]
    for weight, since in ((first, 9), (second, 15)):
        rates = [(1e-3 if t >= since else 1e-2) * factor for t, factor in enumerate(raised)]
        assert [step[id(weight)] for step in seen] == pytest.approx(rates)
    assert {step[id(model.head.weight)] for step in seen} == {1e-2}


def test_a_penalty_that_follows_the_rate_follows_that_one(device):
    runs = []
    for kind in (torch.optim.AdamW, mgpp.AdamW):
        model = Toy().to(device)
        method = mgpp.L2(**RAMP, weight=1e-1, decoupled=True, lr_power=POWER)
        _, optimizer = start(model, lambda params, kind=kind: kind(params, lr=1e-2), method)
        train(model, optimizer)
        runs.append(weights_of(model))
    for name, value in runs[0].items():
        torch.testing.assert_close(runs[1][name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_until_the_ramp_starts_nothing_is_different_and_then_only_the_rate_of_what_is_pruned():
    fast, plain = Toy(), Toy()
    _, optimizer = start(fast, OPTIMIZERS["AdamW"], method_for("AdamW", lr_power=POWER))
    _, other = start(plain, OPTIMIZERS["AdamW"], method_for("AdamW"))
    after_each: list[list[dict]] = [[], []]
    train(fast, optimizer, after=lambda t: after_each[0].append(weights_of(fast)))
    train(plain, other, after=lambda t: after_each[1].append(weights_of(plain)))
    for with_it, without in list(zip(*after_each, strict=True))[:4]:  # at the ramp's first step v is still 0
        assert_identical(with_it, without)
    fifth = {name: (after_each[0][4][name] != value).any() for name, value in after_each[1][4].items()}
    assert {name for name, differs in fifth.items() if differs} == set(
        mgpp.Pruner(plain, method_for("AdamW"), total_steps=STEPS, train_size=64).targets
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_between_steps_the_groups_are_the_users_own(name):
    model = Toy()
    _, optimizer = start(model, OPTIMIZERS[name], method_for(name, lr_power=POWER))
    own = list(optimizer.param_groups)
    params = list(own[0]["params"])
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=STEPS)
    rates = []

    def look(t: int) -> None:
        rates.append(own[0]["lr"])
        assert len(optimizer.param_groups) == 1
        assert optimizer.param_groups[0] is own[0]
        assert all(a is b for a, b in zip(own[0]["params"], params, strict=True))
        scheduler.step()

    train(model, optimizer, after=look)
    first = rates[0]
    torch.testing.assert_close(torch.tensor(rates), first * torch.linspace(1.0, 0.1, STEPS + 1)[:-1])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_whose_state_was_loaded_goes_on_as_if_it_had_not_been(name):
    """mgpp.AdamW gives all of a group one counter then, which is two groups' in a step."""
    whole, halved = Toy(), Toy()
    _, optimizer = start(whole, OPTIMIZERS[name], method_for(name, lr_power=POWER))
    train(whole, optimizer)

    _, optimizer = start(halved, OPTIMIZERS[name], method_for(name, lr_power=POWER))

    def load_own_state(t: int) -> None:
        if t in (2, 9, 16):
            optimizer.load_state_dict(optimizer.state_dict())

    train(halved, optimizer, after=load_own_state)
    assert_identical(weights_of(halved), weights_of(whole))


def in_every_step(optimizer: Optimizer, act: Callable[[dict[str, Any]], None]) -> None:
    """With every group that it has then."""

    def hook(taking: Optimizer, args: Any, kwargs: Any) -> None:
        for group in taking.param_groups:
            act(group)

    optimizer.register_step_pre_hook(hook)


@pytest.mark.parametrize("count", [0, torch.tensor(0)], ids=["number", "tensor"])
def test_what_an_optimizer_counts_in_its_group_is_kept(count):
    def add_one(group: dict[str, Any]) -> None:
        group["count"] += 1

    model = Toy()
    _, optimizer = start(model, OPTIMIZERS["SGD"], method_for("SGD", lr_power=POWER))
    (group,) = optimizer.param_groups
    group["count"] = count
    in_every_step(optimizer, add_one)
    train(model, optimizer)
    assert int(group["count"]) == STEPS
    assert not isinstance(count, torch.Tensor) or group["count"] is count


def test_what_an_optimizer_sums_up_of_its_rate_is_refused_by_name():
    def sum_up(group: dict[str, Any]) -> None:
        group["sum"] = group.get("sum", 0.0) + group["lr"] ** 2

    model = Toy()
    _, optimizer = start(model, OPTIMIZERS["SGD"], method_for("SGD", lr_power=POWER))
    in_every_step(optimizer, sum_up)
    with pytest.raises(ValueError, match=r"keeps 'sum' in its groups, .* set lr_power=0"):
        train(model, optimizer)


def test_one_that_shares_the_list_of_groups_sees_the_other_rate():
    """As wrappers do whose inner optimizer takes the step."""

    class Around(Optimizer):
        def __init__(self, inner: Optimizer) -> None:
            super().__init__([param for group in inner.param_groups for param in group["params"]], {"lr": 0.1})
            self.inner, self.param_groups, self.state = inner, inner.param_groups, inner.state

        def step(self, closure: Any = None) -> Any:
            return self.inner.step(closure)

    plain, around = Toy(), Toy()
    _, optimizer = start(plain, OPTIMIZERS["SGD"], method_for("SGD", lr_power=POWER))
    train(plain, optimizer)
    _, optimizer = start(around, lambda params: Around(OPTIMIZERS["SGD"](params)), method_for("SGD", lr_power=POWER))
    train(around, optimizer)
    assert_identical(weights_of(around), weights_of(plain))


@pytest.mark.parametrize("before", [True, False], ids=["scheduler first", "pruner first"])
def test_a_step_that_fails_gives_the_groups_back(before):
    model = Toy()
    optimizer = OPTIMIZERS["SGD"](model.parameters())
    if before:
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
    pruner = mgpp.Pruner(model, method_for("SGD", lr_power=POWER), total_steps=STEPS, train_size=64)
    pruner.attach(optimizer)
    if not before:
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
    (own,) = optimizer.param_groups
    model(**next(batches()))["loss"].backward()

    def fail(group: dict[str, Any]) -> None:
        raise MemoryError

    in_every_step(optimizer, fail)
    with pytest.raises(MemoryError):
        optimizer.step()
    assert optimizer.param_groups == [own]
    optimizer._optimizer_step_pre_hooks.popitem()
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups == [own]
    assert pruner.t == 1


@pytest.mark.parametrize("scheduler_first", [True, False])
def test_detached_it_leaves_the_optimizer_as_it_was_and_another_may_come(scheduler_first):
    model = Toy()
    optimizer = OPTIMIZERS["SGD"](model.parameters())
    if scheduler_first:
        torch.optim.lr_scheduler.LinearLR(optimizer)
    before = optimizer.__dict__.get("step")
    for _ in range(2):
        pruner = mgpp.Pruner(model, method_for("SGD", lr_power=POWER), total_steps=STEPS, train_size=64)
        pruner.attach(optimizer)
        pruner.detach()
        assert optimizer.__dict__.get("step") is before


@pytest.mark.parametrize("name", ["SGD", "mgpp.AdamW"])
def test_a_second_one_on_the_same_optimizer_is_refused(name):
    model = Toy()
    _, optimizer = start(model, OPTIMIZERS[name], method_for(name, lr_power=POWER))
    second = mgpp.Pruner(model, method_for(name, lr_power=POWER), total_steps=STEPS, train_size=64)
    with pytest.raises(ValueError, match="another pruner with an lr_power is attached to this optimizer"):
        second.attach(optimizer)


def test_an_optimizer_without_a_rate_of_its_own_is_named():
    model = Toy()
    pruner = mgpp.Pruner(model, method_for("SGD", lr_power=POWER), total_steps=STEPS, train_size=64)
    with pytest.raises(ValueError, match=r"Adafactor was given none \(lr=None\)"):
        pruner.attach(Adafactor(model.parameters()))


def test_calling_both_halves_of_a_step_by_hand_does_the_same():
    hooked, by_hand = Toy(), Toy()
    _, optimizer = start(hooked, OPTIMIZERS["AdamW"], method_for("AdamW", lr_power=POWER))
    train(hooked, optimizer)

    pruner = mgpp.Pruner(by_hand, method_for("AdamW", lr_power=POWER), total_steps=STEPS, train_size=64)
    optimizer = OPTIMIZERS["AdamW"](by_hand.parameters())
    pruner.attach(optimizer, hooks=False)
    data = batches()
    for _ in range(STEPS):
        by_hand(**next(data))["loss"].backward()
        pruner.before_step()
        optimizer.step()
        pruner.after_step()
        optimizer.zero_grad()
    assert_identical(weights_of(by_hand), weights_of(hooked))


def test_a_skipped_step_gives_the_groups_back():
    model = Toy()
    pruner = mgpp.Pruner(model, method_for("AdamW", lr_power=POWER), total_steps=STEPS, train_size=64)
    optimizer = OPTIMIZERS["AdamW"](model.parameters())
    pruner.attach(optimizer, hooks=False)
    own = optimizer.param_groups[0]
    model(**next(batches()))["loss"].backward()
    pruner.before_step()
    assert len(optimizer.param_groups) == 2
    pruner.after_step(skipped=True)
    assert optimizer.param_groups == [own]
    assert own["lr"] == 1e-2


def test_without_an_optimizer_it_says_what_to_call():
    model = Toy()
    pruner = mgpp.Pruner(model, method_for("AdamW", lr_power=POWER), total_steps=STEPS, train_size=64)
    model(**next(batches()))["loss"].backward()
    with pytest.raises(RuntimeError, match=r"lr_power=0.5 changes the optimizer's learning rate: call pruner.attach"):
        pruner.before_step()


@pytest.mark.parametrize("power", [-0.1, 1.5, float("nan")])
def test_a_power_out_of_its_bounds_is_named(power):
    with pytest.raises(ValueError, match=f"lr_power={power}"):
        mgpp.MGPP(sparsity=0.9, lr_power=power)


def test_a_word_in_its_place_is_no_number():
    with pytest.raises(ValueError, match="lr_power=True is no number"):
        from_dict({"method": "mgpp", "sparsity": 0.9, "lr_power": True})
