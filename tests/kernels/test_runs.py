"""Whole runs by the launches, which a CPU only makes in the interpreter, end where runs by the readable twins end."""

import pytest
import torch

import mgpp
from mgpp import kernels
from mgpp.kernels.layout import lay_out
from tests.test_contract import EMERGENT, STEPS, assert_zeros_are_as_asked, method_of
from tests.toy import Toy, batches, weights_of

# None with a prior: near its half-width the last bit of a weight decides where it goes.
CASES = ["gmp-hold", "hold-mask", "movement", "movement-global", "soft-movement", "soft-movement-original", "losparse"]


def run(case: str, device) -> tuple[dict[str, torch.Tensor], list[dict], mgpp.Pruner]:
    model = Toy().to(device)
    told: list[dict] = []
    pruner = mgpp.Pruner(model, method_of(case), total_steps=STEPS, train_size=64, on_record=told.append)
    # SGD: a difference in the last bit stays one, where Adam may turn it into a step.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    pruner.attach(optimizer)
    data = batches(device=device)
    for _ in range(STEPS):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    pruner.settle()
    return weights_of(model), told, pruner


@pytest.mark.parametrize("case", CASES)
def test_a_run_by_the_launches_is_a_run_by_the_twins(case, device, monkeypatch):
    monkeypatch.setattr(kernels, "_laid_out", lambda *args, **more: None)
    plain, expected, _ = run(case, device)
    laid_out = []

    def always(key, lists, scratch, *, fresh=()):
        laid_out.append(key)
        return lay_out(key, lists, scratch, fresh=fresh)

    monkeypatch.setattr(kernels, "_laid_out", always)
    fast, told, pruner = run(case, device)
    assert laid_out
    for name, value in plain.items():
        assert torch.equal(fast[name] == 0, value == 0), name
        torch.testing.assert_close(fast[name], value, rtol=1e-4, atol=1e-6)
    assert [record["zeros"] for record in told] == [record["zeros"] for record in expected]
    cuts = [[record["cut"] for record in records] for records in (told, expected)]
    assert cuts[0] == pytest.approx(cuts[1], rel=1e-3)
    if case not in EMERGENT:
        assert_zeros_are_as_asked(case, pruner, pruner.zeros, 0.75)
