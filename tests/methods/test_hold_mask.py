"""A mask that is held: what was zero never moves, by whatever optimizer, and the rest learns as it would alone."""

import pytest
import torch
from torch import Tensor, nn

import mgpp
from tests.toy import NUM_WEIGHTS, Toy, assert_identical, batches, weights_of

OPTIMIZERS = {
    "adamw with decay": lambda params: torch.optim.AdamW(params, lr=1e-2, weight_decay=0.1),
    "sgd with momentum": lambda params: torch.optim.SGD(params, lr=1e-2, momentum=0.9, weight_decay=0.1),
    "adafactor": lambda params: torch.optim.Adafactor(params, lr=1e-2),
    "our adamw": lambda params: mgpp.AdamW(params, lr=1e-2, weight_decay=0.1),
    "noise": lambda params: mgpp.SGHMC(params, lr=1e-3, train_size=64),
}


def sparse_toy(share: float = 0.6) -> Toy:
    model = Toy()
    draw = torch.Generator().manual_seed(4)
    for weight in mgpp.Pruner(model, mgpp.GMP(sparsity=0.5), total_steps=10).targets.values():
        weight.data[torch.rand(weight.shape, generator=draw) < share] = 0
    return model


def masks(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight == 0 for name, weight in model.state_dict().items() if "blocks" in name and weight.ndim == 2}


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 12) -> None:
    data = batches()
    for _ in range(steps):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_what_was_zero_is_zero_after_every_step_and_nothing_else_is(make):
    model = sparse_toy()
    before = masks(model)
    optimizer = make(model.parameters())
    pruner = mgpp.Pruner(model, mgpp.HoldMask(), total_steps=12)
    pruner.attach(optimizer)
    data = batches()
    for _ in range(12):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        assert_identical(masks(model), before)


def test_momentum_that_an_earlier_training_left_does_not_bring_it_back():
    model = Toy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    train(model, optimizer)  # every weight has momentum now
    for name, weight in sparse_toy().state_dict().items():
        model.state_dict()[name].masked_fill_(weight == 0, 0)
    before = masks(model)
    mgpp.Pruner(model, mgpp.HoldMask(), total_steps=12).attach(optimizer)
    train(model, optimizer)
    assert_identical(masks(model), before)


def test_the_optimizer_keeps_no_moments_of_what_is_held():
    model = sparse_toy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    pruner = mgpp.Pruner(model, mgpp.HoldMask(), total_steps=12)
    pruner.attach(optimizer)
    train(model, optimizer)
    for weight in pruner.targets.values():
        for moment in ("exp_avg", "exp_avg_sq"):
            assert (optimizer.state[weight][moment][weight == 0] == 0).all()


def test_the_other_weights_learn_as_in_a_model_that_has_no_such_weights():
    held, plain = sparse_toy(), sparse_toy()
    optimizer = torch.optim.AdamW(held.parameters(), lr=1e-2, weight_decay=0.1)
    mgpp.Pruner(held, mgpp.HoldMask(), total_steps=12).attach(optimizer)
    train(held, optimizer)
    mask = masks(plain)
    for name, weight in plain.named_parameters():
        if name in mask:
            weight.register_hook(lambda grad, zero=mask[name]: grad.masked_fill(zero, 0))
    train(plain, torch.optim.AdamW(plain.parameters(), lr=1e-2, weight_decay=0.1))
    assert_identical(weights_of(held), weights_of(plain))


def test_a_resumed_run_holds_the_mask_of_the_start_and_not_what_happens_to_be_zero_now():
    model = sparse_toy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    pruner = mgpp.Pruner(model, mgpp.HoldMask(), total_steps=12)
    pruner.attach(optimizer)
    train(model, optimizer, 6)
    before = masks(model)
    weight = next(iter(pruner.targets.values()))
    row, column = (weight != 0).nonzero()[0].tolist()
    weight.data[row, column] = 0  # as a step may bring about

    again = mgpp.Pruner(model, mgpp.HoldMask(), total_steps=12)
    again.load_state_dict(pruner.state_dict())
    pruner.detach()
    again.attach(optimizer)
    train(model, optimizer, 6)
    assert weight[row, column] != 0
    assert_identical(masks(model), before)


def test_the_ramp_goes_on_from_the_mask_and_never_below_it():
    model = sparse_toy(0.6)
    before, held = masks(model), sum(int(mask.sum()) for mask in masks(model).values())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    told: list[dict] = []
    method = mgpp.HoldMask(sparsity=0.8, start=0, end=8, every=2)
    mgpp.Pruner(model, method, total_steps=12, on_record=told.append).attach(optimizer)
    train(model, optimizer)
    counts = [sum(record["zeros"].values()) for record in told]
    asked = [int(record["target"] * NUM_WEIGHTS) for record in told]
    assert counts == [max(held, count) for count in asked]
    assert (counts[0], counts[-1]) == (held, int(0.8 * NUM_WEIGHTS))
    assert all((masks(model)[name] >= mask).all() for name, mask in before.items())


def test_a_model_without_zeros_has_no_mask_to_hold():
    with pytest.raises(ValueError, match="none of the model's weights is zero, there is no mask to hold: prune it"):
        mgpp.Pruner(Toy(), mgpp.HoldMask(), total_steps=12)


def test_a_pattern_cannot_be_asked_of_what_is_held():
    with pytest.raises(ValueError, match="structure='2:4': the mask that is held has the structure it has"):
        mgpp.HoldMask(structure="2:4")
