"""A pruner counts an optimizer's steps, whatever happens inside them."""

from typing import Any

import pytest
import torch

import mgpp
from tests.test_contract import RAMP, STEPS
from tests.toy import Toy, assert_identical, batches, weights_of


class Child(torch.optim.AdamW):
    """Its step and its parent's both have hooks around them, once an AdamW has been made."""

    fails = False

    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        if self.fails:
            raise MemoryError
        return loss


def start(make: type[torch.optim.AdamW]) -> tuple[Toy, torch.optim.AdamW, mgpp.Pruner]:
    model = Toy()
    pruner = mgpp.Pruner(model, mgpp.MGPP(**RAMP, spike_var=1e-4), total_steps=STEPS, train_size=64)
    optimizer = make(model.parameters(), lr=1e-2)
    pruner.attach(optimizer)
    return model, optimizer, pruner


def train(model: Toy, optimizer: torch.optim.AdamW, steps: int) -> None:
    data = batches()
    for _ in range(steps):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_step_that_calls_its_parents_is_one_step():
    parent, own, pruner = start(torch.optim.AdamW)
    train(parent, own, STEPS)
    assert pruner.t == STEPS
    child, own, pruner = start(Child)
    train(child, own, STEPS)
    assert pruner.t == STEPS
    assert_identical(weights_of(child), weights_of(parent))


def test_after_a_step_that_failed_the_next_one_counts():
    torch.optim.AdamW(Toy().parameters())
    model, optimizer, pruner = start(Child)
    train(model, optimizer, 2)
    optimizer.fails = True
    with pytest.raises(MemoryError):
        train(model, optimizer, 1)
    assert pruner.t == 2
    optimizer.fails = False
    train(model, optimizer, 3)
    assert pruner.t == 5
