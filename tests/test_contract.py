"""What every method promises, checked for every method."""

import json
import tomllib

import pytest
import torch
from torch import nn

import mgpp
from mgpp.methods import METHODS, Method, from_dict, to_dict
from tests.toy import NUM_WEIGHTS, Toy, assert_identical, batches, weights_of

STEPS = 20
RAMP = {"sparsity": 0.75, "start": 4, "end": 14, "every": 3}

CASES: dict[str, dict] = {
    "mgpp": {"method": "mgpp", "spike_var": 1e-4},
    "gmp": {"method": "gmp"},
    "gmp-hold": {"method": "gmp", "hold": True},
    "l2": {"method": "l2"},
    "l2-decoupled": {"method": "l2", "decoupled": True},
}

every_method = pytest.mark.parametrize("case", CASES)


def method_of(case: str, **ramp) -> Method:
    return from_dict({**CASES[case], **RAMP, **ramp})


def start(case: str, model: nn.Module, **ramp) -> tuple[mgpp.Pruner, torch.optim.Optimizer, list[dict]]:
    records: list[dict] = []
    pruner = mgpp.Pruner(model, method_of(case, **ramp), total_steps=STEPS, train_size=64, on_record=records.append)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
    pruner.attach(optimizer)
    return pruner, optimizer, records


def take_steps(model, optimizer, data, steps: int) -> None:
    for _ in range(steps):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()


def test_every_method_in_the_table_has_a_case():
    assert {settings["method"] for settings in CASES.values()} == set(METHODS)


@every_method
def test_the_schedule_is_followed_and_every_event_leaves_exactly_the_count_asked(case):
    model = Toy()
    pruner, optimizer, records = start(case, model)
    data = batches()
    for t in range(1, STEPS + 1):
        take_steps(model, optimizer, data, 1)
        due = (t % 3 == 0 and t >= 4) or t > 14
        assert (bool(records) and records[-1]["step"] == t) == due
        if due:
            share = 0.75 if t >= 14 else 0.75 - 0.75 * (1 - (t - 4) / 10) ** 3
            assert sum(records[-1]["zeros"].values()) == int(share * NUM_WEIGHTS)
            assert records[-1]["zeros"] == pruner.zeros
            assert records[-1]["sparsity"] == pruner.sparsity
    assert sum(pruner.zeros.values()) == int(0.75 * NUM_WEIGHTS)


@every_method
@pytest.mark.parametrize("sparsity", [0.0, 0.999])
def test_extreme_sparsities_are_met_exactly(case, sparsity):
    model = Toy()
    pruner, optimizer, _ = start(case, model, sparsity=sparsity)
    take_steps(model, optimizer, batches(), STEPS)
    assert sum(pruner.zeros.values()) == int(sparsity * NUM_WEIGHTS)


@every_method
def test_equal_weights_are_pruned_to_the_exact_count(case):
    model = Toy()
    pruner, optimizer, records = start(case, model)
    for weight in pruner.targets.values():
        nn.init.constant_(weight, 0.5)
    for _ in range(STEPS):
        for weight in model.parameters():
            weight.grad = torch.full_like(weight, 0.1)
        optimizer.step()
    for record in records:
        assert sum(record["zeros"].values()) == int(record["target"] * NUM_WEIGHTS)


@every_method
@pytest.mark.parametrize("stop", range(1, STEPS))
def test_a_run_stopped_anywhere_and_resumed_ends_in_the_same_bits(case, stop):
    whole = Toy()
    _, optimizer, records = start(case, whole)
    take_steps(whole, optimizer, batches(), STEPS)

    first = Toy()
    pruner, optimizer, before = start(case, first)
    data = batches()
    take_steps(first, optimizer, data, stop)
    saved = pruner.state_dict(), optimizer.state_dict(), weights_of(first)

    second = Toy(seed=9)
    pruner, optimizer, after = start(case, second)
    pruner.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    second.load_state_dict(saved[2])
    take_steps(second, optimizer, data, STEPS - stop)

    assert_identical(weights_of(second), weights_of(whole))
    assert before + after == records


@every_method
def test_only_targeted_weights_differ_from_training_without_it(case):
    """The first step: later ones feel the pruned weights through the loss."""
    pruned, plain = Toy(), Toy()
    pruner, optimizer, _ = start(case, pruned, start=0, end=1, every=1)
    take_steps(pruned, optimizer, batches(), 1)
    take_steps(plain, torch.optim.AdamW(plain.parameters(), lr=1e-2, weight_decay=0), batches(), 1)
    for name, value in weights_of(plain).items():
        if name not in pruner.targets:
            torch.testing.assert_close(weights_of(pruned)[name], value, rtol=0, atol=0)


@every_method
def test_settings_survive_json_and_toml(case):
    method = method_of(case, start="1.5ep", end=0.9, every=7)
    settings = to_dict(method)
    assert from_dict(json.loads(json.dumps(settings))) == method
    toml = "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    assert from_dict(tomllib.loads(toml)) == method


@every_method
@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("sparsity", 1.5, r"sparsity=1\.5"),
        ("sparsity", -0.1, r"sparsity=-0\.1"),
        ("sparsity", float("nan"), "sparsity=nan"),
        ("sparsity", 1, "sparsity=1"),
        ("sparsity", "lots", "wrong type"),
        ("initial_sparsity", 0.8, r"initial_sparsity=0\.8"),
        ("start", -1, "start=-1"),
        ("start", 1.5, r"start=1\.5"),
        ("start", "soon", "start='soon'"),
        ("start", True, "start=True"),
        ("end", 0, "end=0"),
        ("every", 0, "every=0"),
        ("colour", "red", "no setting colour"),
        ("method", "magic", "method='magic' is not one of"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(case, setting, value, message):
    with pytest.raises(ValueError, match=message):
        from_dict({**CASES[case], **RAMP, setting: value})


@every_method
@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({"end": 3500}, "end=3500 is past the run's last step 20"),
        ({"start": 14}, "start=14 is not before end=14"),
        ({"start": 0.9, "end": 0.5}, "start=18 is not before end=10"),
        ({"end": "2ep"}, "steps_per_epoch"),
    ],
)
def test_a_schedule_that_does_not_fit_the_run_is_refused_with_its_numbers(case, times, message):
    with pytest.raises(ValueError, match=message):
        start(case, Toy(), **times)
