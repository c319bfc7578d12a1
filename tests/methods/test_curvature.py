"""The curvature score reads what the optimizer keeps, and says so where it keeps nothing."""

import pytest
import torch
from torch import nn
from transformers import Adafactor, Trainer

import mgpp
from tests.test_contract import RAMP, STEPS
from tests.test_trainer import arguments
from tests.toy import NUM_WEIGHTS, Toy, batches, rows

ADAMS = {
    "adam": lambda params: torch.optim.Adam(params, lr=1e-2),
    "adamw": lambda params: torch.optim.AdamW(params, lr=1e-2),
    "fused": lambda params: torch.optim.AdamW(params, lr=1e-2, fused=True),
    "amsgrad": lambda params: torch.optim.AdamW(params, lr=1e-2, amsgrad=True),
    "nadam": lambda params: torch.optim.NAdam(params, lr=1e-2),
    "radam": lambda params: torch.optim.RAdam(params, lr=1e-2),
}


class Bits(torch.Tensor):
    """As an 8-bit optimizer keeps its moments: a tensor class of its own."""


class AdamWith8Bits(torch.optim.AdamW):
    def step(self, closure=None):
        super().step(closure)
        for state in self.state.values():
            state["exp_avg_sq"] = state["exp_avg_sq"].as_subclass(Bits)


OTHERS = {
    "SGD": lambda params: torch.optim.SGD(params, lr=1e-2),
    "RMSprop": lambda params: torch.optim.RMSprop(params, lr=1e-3),
    "Adagrad": lambda params: torch.optim.Adagrad(params, lr=1e-2),
    "Adamax": lambda params: torch.optim.Adamax(params, lr=1e-2),
    "Adafactor": lambda params: Adafactor(params, lr=1e-2, relative_step=False),
    "AdamWith8Bits": lambda params: AdamWith8Bits(params, lr=1e-2),
    "SGLD": lambda params: mgpp.SGLD(params, lr=1e-2, train_size=64),
}
LIKE_ADAM = ("Adamax", "AdamWith8Bits")  # by their settings


def one_step(model: nn.Module, optimizer: torch.optim.Optimizer, data, idle: nn.Parameter | None = None) -> None:
    model(**next(data))["loss"].backward()
    if idle is not None:
        idle.grad = None
    optimizer.step()


@pytest.mark.parametrize("kind", ADAMS)
def test_the_weights_of_least_size_times_root_corrected_second_moment_go(kind):
    model = Toy().double()
    optimizer, data = ADAMS[kind](model.parameters()), batches()
    method = mgpp.GMP(sparsity=0.5, start=0, end=6, every=6, score="curvature")
    pruner = mgpp.Pruner(model, method, total_steps=6)
    pruner.attach(optimizer, hooks=False)
    idle = model.blocks[0][0].weight
    for t in range(1, 7):
        batch = next(data)
        model(x=batch["x"].double(), labels=batch["labels"])["loss"].backward()
        if t < 5:
            idle.grad = None  # it takes two steps where the others take six: its correction is another
        pruner.before_step()
        optimizer.step()
        if t < 6:
            pruner.after_step()
        optimizer.zero_grad()
    states = {name: optimizer.state[weight] for name, weight in pruner.targets.items()}
    assert sorted({float(state["step"]) for state in states.values()}) == [2, 6]
    before = {name: weight.detach().clone() for name, weight in pruner.targets.items()}
    pruner.after_step()

    def expected(corrected: bool) -> dict[str, torch.Tensor]:
        worth = {
            name: before[name].abs()
            * (state["exp_avg_sq"] / (1 - 0.999 ** float(state["step"]) if corrected else 1)).sqrt()
            for name, state in states.items()
        }
        cut = torch.cat([value.flatten() for value in worth.values()]).sort().values[NUM_WEIGHTS // 2]
        return {name: value >= cut for name, value in worth.items()}

    actual = {name: weight != 0 for name, weight in pruner.targets.items()}
    torch.testing.assert_close(actual, expected(corrected=True))
    assert any(not torch.equal(actual[name], keep) for name, keep in expected(corrected=False).items())


@pytest.mark.parametrize("optimizer_class", [torch.optim.AdamW, mgpp.AdamW])
def test_where_the_second_moment_is_the_last_square_the_score_is_the_sensitivity(optimizer_class):
    """β2 = 0: v̂ is the gradient's square, and its correction 1."""
    model, data = Toy(), batches()
    optimizer = optimizer_class(model.parameters(), lr=1e-2, betas=(0.9, 0.0))
    pruner = mgpp.Pruner(model, mgpp.GMP(sparsity=0.5, start=0, end=3, every=3, score="curvature"), total_steps=3)
    pruner.attach(optimizer, hooks=False)
    for t in range(1, 4):
        optimizer.zero_grad()
        one_step(model, optimizer, data)
        if t < 3:
            pruner.after_step()
    worth = [(weight * weight.grad).abs().detach() for weight in pruner.targets.values()]
    cut = torch.cat([value.flatten() for value in worth]).sort().values[NUM_WEIGHTS // 2]
    pruner.after_step()
    for weight, value in zip(pruner.targets.values(), worth, strict=True):
        assert torch.equal(weight != 0, value >= cut)


def test_a_weight_that_never_had_a_gradient_goes_first():
    model = Toy()
    optimizer, data = torch.optim.AdamW(model.parameters(), lr=1e-2), batches()
    pruner = mgpp.Pruner(model, mgpp.GMP(**RAMP, score="curvature"), total_steps=STEPS)
    pruner.attach(optimizer)
    idle = model.blocks[0][0].weight
    for _ in range(STEPS):
        one_step(model, optimizer, data, idle=idle)
        optimizer.zero_grad()
    assert not idle.any()
    assert idle not in optimizer.state
    assert pruner.sparsity == 0.75


READERS = pytest.mark.parametrize(
    ("method", "setting"),
    [
        (mgpp.GMP(**RAMP, score="curvature"), 'score="curvature"'),
        (mgpp.MGPP(**RAMP, spike_var=1e-4, decoupled=True), "decoupled=True"),
    ],
    ids=["curvature", "decoupled"],
)


@pytest.mark.parametrize("name", [name for name in OTHERS if name not in LIKE_ADAM])
@READERS
def test_an_optimizer_without_a_second_moment_is_named_when_it_is_attached_to(name, method, setting):
    model = Toy()
    optimizer = OTHERS[name](model.parameters())
    pruner = mgpp.Pruner(model, method, total_steps=STEPS, train_size=64)
    for hooks in (True, False):
        with pytest.raises(ValueError, match=name) as error:
            pruner.attach(optimizer, hooks=hooks)
        assert setting in str(error.value)
        assert "AdamW" in str(error.value)
    one_step(model, optimizer, batches())  # it was left as it was


@pytest.mark.parametrize("name", LIKE_ADAM)
@READERS
def test_one_that_only_looks_like_adam_is_named_at_the_first_step(name, method, setting):
    model = Toy()
    optimizer = OTHERS[name](model.parameters())
    pruner = mgpp.Pruner(model, method, total_steps=STEPS, train_size=64)
    pruner.attach(optimizer)
    with pytest.raises(ValueError, match=name) as error:
        one_step(model, optimizer, batches())
    assert setting in str(error.value)


@pytest.mark.parametrize("method", [mgpp.MGPP(**RAMP), mgpp.MGPP(**RAMP, decoupled=True, strength=0)])
def test_who_reads_no_second_moment_trains_with_any_optimizer(method):
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    mgpp.Pruner(model, method, total_steps=STEPS, train_size=64).attach(optimizer)
    one_step(model, optimizer, batches())


@pytest.mark.parametrize("optim", ["sgd", "adafactor"])
def test_a_trainer_with_such_an_optimizer_is_told_so_too(optim, tmp_path):
    pruning = mgpp.PruningCallback(mgpp.MGPP(**RAMP, score="curvature"))
    trainer = Trainer(model=Toy(), args=arguments(tmp_path, optim=optim), train_dataset=rows(), callbacks=[pruning])
    with pytest.raises(ValueError, match=r"(?i)" + optim):
        trainer.train()


def test_without_an_optimizer_the_cure_is_attach():
    model = Toy()
    pruner = mgpp.Pruner(model, mgpp.GMP(**RAMP, score="curvature"), total_steps=STEPS)
    model(**next(batches()))["loss"].backward()
    pruner.before_step()
    with pytest.raises(RuntimeError, match=r"pruner\.attach\(optimizer\)"):
        pruner.after_step()


@pytest.mark.parametrize("method", [mgpp.MGPP, mgpp.GMP, mgpp.L2, mgpp.PriorAnnealing])
def test_a_score_that_does_not_exist_is_named_with_those_that_do(method):
    with pytest.raises(ValueError, match="score='size' is not one of magnitude, curvature"):
        method(sparsity=0.5, score="size")
