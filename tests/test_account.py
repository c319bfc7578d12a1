"""Numbers of events are told in their order, once, and no later than asked."""

import pytest
import torch

import mgpp
from mgpp.account import TOGETHER, Account
from mgpp.functional.select import Cut
from tests.toy import Toy, batches


class Travelling:
    """As an event's numbers on a GPU: there when they are said to have arrived, or when somebody waits for them."""

    def __init__(self) -> None:
        self.arrived = False
        self.asked = 0

    def ready(self) -> bool:
        self.asked += 1
        return self.arrived

    def cut(self) -> Cut:
        return Cut(value=0.5, below=1, ties=0)

    def zeros(self) -> list[int]:
        return [1, 2]


@pytest.fixture
def told() -> list[int]:
    return []


@pytest.fixture
def account(told) -> Account:
    return Account(["a", "b"], lambda zeros: zeros / 10, lambda record: told.append(record["step"]))


def test_what_has_arrived_is_told_at_once_where_nothing_travels(account, told):
    for step in range(3):
        promise = Travelling()
        promise.arrived = True
        account.add({"step": step}, promise, None)
        assert told == list(range(step + 1))
    assert account.last_record == {"step": 2, "sparsity": 0.3, "cut": 0.5, "zeros": {"a": 1, "b": 2}}


def test_what_travels_is_asked_for_in_one_go_and_told_in_order(account, told):
    promises = [Travelling() for _ in range(2 * TOGETHER)]
    for step, promise in enumerate(promises):
        if step >= 2:
            promises[step - 2].arrived = True
        account.add({"step": step}, promise, None)
        assert len(account._waiting) <= TOGETHER
    assert told == list(range(len(told)))
    assert len(told) >= TOGETHER
    assert sum(promise.asked for promise in promises) < 2 * len(promises)
    account.settle(wait=True)
    assert told == list(range(2 * TOGETHER))


def test_one_that_does_not_arrive_holds_up_no_later_ones_for_ever(account, told):
    late = Travelling()
    account.add({"step": 0}, late, None)
    for step in range(1, 2 * TOGETHER):
        promise = Travelling()
        promise.arrived = True
        account.add({"step": step}, promise, None)
    late.arrived = True
    account.add({"step": 2 * TOGETHER}, late, None)
    assert told == list(range(2 * TOGETHER + 1))


def test_at_the_end_of_a_run_all_is_told_and_before_it_what_has_arrived_is_for_who_asks(monkeypatch):
    monkeypatch.setattr("mgpp.account.TOGETHER", 100)
    heard: list[int] = []
    model = Toy()
    method = mgpp.GMP(sparsity=0.5, start=1, end=9, every=2)
    pruner = mgpp.Pruner(model, method, total_steps=10, on_record=lambda record: heard.append(record["step"]))
    monkeypatch.setattr(pruner._account, "add", late(pruner._account))
    optimizer, data = torch.optim.SGD(model.parameters(), lr=1e-2), batches()
    pruner.attach(optimizer)
    for t in range(1, 11):
        model(**next(data))["loss"].backward()
        optimizer.step()
        if t == 4:
            assert heard == []
            assert pruner.last_record["step"] == 4
            assert heard == [2, 4]
    assert heard == [2, 4, 6, 8, 10]


def test_a_run_that_is_finished_early_has_told_all(monkeypatch):
    heard: list[int] = []
    pruner = mgpp.Pruner(
        Toy(), mgpp.GMP(sparsity=0.5), total_steps=10, on_record=lambda record: heard.append(record["step"])
    )
    monkeypatch.setattr(pruner._account, "add", late(pruner._account))
    pruner.finish()
    assert heard == [0]


def late(account: Account):
    """What it does where the first numbers had not arrived when they were looked at."""
    return lambda *told: account._waiting.append(told)
