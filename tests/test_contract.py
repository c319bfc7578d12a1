"""What every method promises, checked for every method."""

import json
import tomllib
from functools import cache

import pytest
import torch
from torch import Tensor, nn

import mgpp
from mgpp.methods import METHODS, Method, from_dict, to_dict
from tests.toy import NUM_WEIGHTS, Toy, assert_identical, batches, rows, weights_of

STEPS = 20
RAMP = {"sparsity": 0.75, "start": 4, "end": 14, "every": 3}

FEW_GRADIENTS = {"num_grads": 6, "batch_size": 4, "block": 10, "damp": 1e-4}

CASES: dict[str, dict] = {
    "mgpp": {"method": "mgpp", "spike_var": 1e-4},
    "gmp": {"method": "gmp"},
    "gmp-hold": {"method": "gmp", "hold": True},
    "l2": {"method": "l2"},
    "l2-decoupled": {"method": "l2", "decoupled": True},
    "mgpp-decoupled": {"method": "mgpp", "spike_var": 1e-4, "decoupled": True, "strength": 0.1},
    "mgpp-curvature": {"method": "mgpp", "spike_var": 1e-4, "score": "curvature"},
    "mgpp-annealed-slab": {"method": "mgpp", "spike_var": 1e-4, "slab_prob_start": 0.1, "initial_sparsity": 0.3},
    "mgpp-fixed": {"method": "mgpp", "spike_var": 1e-4, "fix_after_ramp": True, "prior_warm_up": False},
    "mgpp-faster": {"method": "mgpp", "spike_var": 1e-4, "lr_power": 0.5},
    "gmp-curvature": {"method": "gmp", "score": "curvature"},
    "gmp-hold-curvature": {"method": "gmp", "hold": True, "score": "curvature"},
    "l2-curvature": {"method": "l2", "score": "curvature"},
    "platon": {"method": "platon"},
    "platon-prior": {"method": "platon", "prior": {"spike_var": 1e-4}},
    "platon-decoupled-prior": {"method": "platon", "prior": {"spike_var": 1e-4, "decoupled": True, "strength": 0.1}},
    "itp": {"method": "itp"},
    "itp-prior": {"method": "itp", "prior": {"spike_var": 1e-4, "slab_prob_start": 0.1, "after_ramp": False}},
    "movement": {"method": "movement"},
    "movement-global": {"method": "movement", "scope": "global"},
    "movement-prior": {"method": "movement", "prior": {"spike_var": 1e-4}},
    "movement-decoupled-prior": {
        "method": "movement",
        "prior": {"spike_var": 1e-4, "decoupled": True, "strength": 0.1},
    },
    "soft-movement": {"method": "soft_movement", "score_lr": 0.3},
    "soft-movement-prior": {"method": "soft_movement", "score_lr": 0.3, "prior": {"spike_var": 1e-4}},
    "soft-movement-original": {"method": "soft_movement", "score_lr": 0.3, "exact": False},
    "obert": {"method": "obert", **FEW_GRADIENTS},
    "obert-streamed": {"method": "obert", **FEW_GRADIENTS, "memory_gb": 1.2e-5},
    "obert-prior": {"method": "obert", **FEW_GRADIENTS, "prior": {"spike_var": 1e-4}},
    "losparse": {"method": "losparse"},
    "prior-annealing": {"method": "prior_annealing"},
    "prior-annealing-late": {"method": "prior_annealing", "prune_at": 17, "score": "curvature"},
    "prior-annealing-threshold": {
        "method": "prior_annealing",
        "exact": False,
        "slab_prob": 0.1,
        "spike_var_start": 0.05,
        "spike_var_end": 0.01,
        "slab_var": 0.5,
    },
    "mgpp-2x1": {"method": "mgpp", "spike_var": 1e-4, "structure": "2x1"},
    "gmp-hold-4x4": {"method": "gmp", "hold": True, "structure": "4x4"},
    "platon-5x3": {"method": "platon", "structure": "5x3"},
    "mgpp-curvature-1:4": {"method": "mgpp", "spike_var": 1e-4, "score": "curvature", "structure": "1:4"},
    "movement-2x1": {"method": "movement", "structure": "2x1"},
    "obert-1:4": {"method": "obert", **FEW_GRADIENTS, "structure": "1:4"},
    "hold-mask": {"method": "hold_mask"},
}

# Their sparsity is not asked for: it is what comes of their other settings.
EMERGENT = {"prior-annealing-threshold", "soft-movement-original"}
# So is theirs until the ramp ends.
EMERGENT_BEFORE_THE_END = {"soft-movement", "soft-movement-prior", "soft-movement-original"}
# They take whole rows, of at most so many weights; U and V, 80 numbers here, count as weights that are left.
WIDEST_ROW = {"losparse": 12}
MOST = {"losparse": 0.75}
# Blocks go whole: as many as fit, so what is missing is less than one. The 5x3 do not divide the model's matrices.
BLOCK = {"mgpp-2x1": 2, "gmp-hold-4x4": 16, "platon-5x3": 15, "movement-2x1": 2}
# N:M is a sparsity of its own.
N_OF_M = {"mgpp-curvature-1:4", "obert-1:4"}
# Without a sparsity it needs a mask to hold, and the toy has none.
LEAST = {"hold-mask": 1 / NUM_WEIGHTS}

# They prune once, after this step.
ONE_SHOT = {"prior-annealing": 14, "prior-annealing-late": 17, "prior-annealing-threshold": 14}

# What they have pruned stays zero: the first event at full sparsity leaves nothing to others.
HELD = {
    "gmp-hold", "gmp-hold-curvature", "gmp-hold-4x4", "mgpp-fixed", "hold-mask",
    "obert", "obert-streamed", "obert-prior", "obert-1:4",
}  # fmt: skip

every_method = pytest.mark.parametrize("case", CASES)
every_counting_method = pytest.mark.parametrize("case", [case for case in CASES if case not in EMERGENT])
every_free_method = pytest.mark.parametrize("case", [case for case in CASES if case not in EMERGENT | N_OF_M])


def method_of(case: str, **ramp) -> Method:
    return from_dict({**CASES[case], **RAMP, **ramp})


def start(case: str, model: nn.Module, **ramp) -> tuple[mgpp.Pruner, torch.optim.Optimizer, list[dict]]:
    records: list[dict] = []
    pruner = mgpp.Pruner(
        model,
        method_of(case, **ramp),
        total_steps=STEPS,
        train_size=64,
        gradients=mgpp.GradientSampler(model, rows(), seed=3),
        on_record=records.append,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
    pruner.attach(optimizer)
    return pruner, optimizer, records


def assert_zeros_are_as_asked(case: str, pruner: mgpp.Pruner, zeros: dict[str, int], share: float) -> None:
    """int(share·d), to the weight; rows cannot be cut, so where they go it is at least that and less than one more, and
    of blocks it is at most that."""
    final = pruner.schedule.sparsity
    asked = int(share * NUM_WEIGHTS) + int(pruner.num_added * (share / final if share < final else 1))
    assert asked - BLOCK.get(case, 1) < sum(zeros.values()) < asked + WIDEST_ROW.get(case, 1)


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
        due = pruner.schedule.is_event(t)
        assert (bool(records) and records[-1]["step"] == t) == due
        if due:
            assert records[-1]["target"] == pruner.schedule.sparsity_at(t)
            assert records[-1]["zeros"] == pruner.zeros
            assert records[-1]["sparsity"] == pruner.sparsity
            if case not in (EMERGENT_BEFORE_THE_END if t < 14 else EMERGENT):
                assert_zeros_are_as_asked(case, pruner, pruner.zeros, pruner.schedule.sparsity_at(t))
        if case in HELD and t > 15:
            assert pruner.zeros == records[-1]["zeros"]
    assert records[-1]["target"] == 0.75
    assert records[-1]["zeros"] == pruner.zeros


@every_counting_method
def test_the_run_ends_with_exactly_the_zeros_asked(case):
    model = Toy()
    pruner, optimizer, _ = start(case, model)
    take_steps(model, optimizer, batches(), STEPS)
    assert_zeros_are_as_asked(case, pruner, pruner.zeros, 0.75)


@every_method
def test_a_ramp_is_the_cubic_one_and_one_shot_is_one(case):
    schedule = start(case, Toy())[0].schedule
    events = [t for t in range(1, STEPS + 1) if schedule.is_event(t)]
    if case in ONE_SHOT:
        assert events == [ONE_SHOT[case]]
        assert [schedule.sparsity_at(t) for t in range(1, STEPS + 1)] == [0.75 * (t >= events[0]) for t in range(1, 21)]
        return
    assert events == ([6, 9, 12, 15] if case in HELD else [6, 9, 12, 15, 16, 17, 18, 19, 20])
    first = CASES[case].get("initial_sparsity", 0.0)
    for t in events:
        share = 0.75 if t >= 14 else 0.75 - (0.75 - first) * (1 - (t - 4) / 10) ** 3
        if t < 14 and case in EMERGENT_BEFORE_THE_END:
            share = 0.0
        assert schedule.sparsity_at(t) == share


@every_free_method
@pytest.mark.parametrize("sparsity", [0.0, 0.999])
def test_extreme_sparsities_are_met_exactly(case, sparsity):
    model = Toy()
    sparsity = max(LEAST.get(case, 0.0), min(sparsity, MOST.get(case, 1.0)))
    pruner, optimizer, _ = start(case, model, sparsity=sparsity, initial_sparsity=0.0)
    take_steps(model, optimizer, batches(), STEPS)
    assert_zeros_are_as_asked(case, pruner, pruner.zeros, sparsity)


@every_counting_method
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
        if record["step"] >= 14 or case not in EMERGENT_BEFORE_THE_END:
            assert_zeros_are_as_asked(case, pruner, record["zeros"], record["target"])


@cache
def undisturbed(case: str) -> tuple[dict[str, Tensor], list[dict]]:
    model = Toy()
    _, optimizer, records = start(case, model)
    take_steps(model, optimizer, batches(), STEPS)
    return weights_of(model), records


@every_method
@pytest.mark.parametrize("stop", range(1, STEPS))
def test_a_run_stopped_anywhere_and_resumed_ends_in_the_same_bits(case, stop):
    weights, records = undisturbed(case)
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

    assert_identical(weights_of(second), weights)
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
            # Where parameters were added the same sums are taken in another order.
            exact = {} if pruner.added else {"rtol": 0, "atol": 0}
            torch.testing.assert_close(weights_of(pruned)[name], value, **exact)


@every_method
def test_settings_survive_json_and_toml(case):
    method = method_of(case, start="1.5ep", end=0.9, every=7)
    settings = to_dict(method)
    assert from_dict(json.loads(json.dumps(settings))) == method
    toml = "\n".join(f"{key} = {toml_of(value)}" for key, value in settings.items())
    assert from_dict(tomllib.loads(toml)) == method


def toml_of(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml_of(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


@every_method
@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("sparsity", 1.5, r"sparsity=1\.5"),
        ("sparsity", -0.1, r"sparsity=-0\.1"),
        ("sparsity", float("nan"), "sparsity=nan"),
        ("sparsity", 1, "sparsity=1"),
        ("sparsity", "lots", "is no number"),
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
