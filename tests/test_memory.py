"""What a method costs beyond weights, gradients and optimizer states: what it keeps, and what it needs for a moment."""

import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import mgpp
from mgpp import kernels
from mgpp.finite import largest_of
from mgpp.functional.score import curvature
from mgpp.kernels import passes
from mgpp.methods import METHODS, from_dict
from mgpp.methods.ramp import Schedule
from mgpp.survey import Survey

MIB = 1 << 20
MOST = 3 * MIB // 2  # a tensor of this model has 9 MB
STEPS = 4
RAMP = {"sparsity": 0.75, "start": 1, "end": 3, "every": 2}

# Bytes kept for each pruned weight in float32, and whether all that is needed beside them for a moment is the same,
# however large the model.
KEPT: dict[str, tuple[dict, float, bool]] = {
    "mgpp": ({"method": "mgpp"}, 0, True),
    "mgpp-decoupled": ({"method": "mgpp", "decoupled": True}, 0, True),
    "mgpp-curvature": ({"method": "mgpp", "score": "curvature"}, 0, True),
    "mgpp-fixed": ({"method": "mgpp", "fix_after_ramp": True}, 1, True),
    "gmp": ({"method": "gmp"}, 0, True),
    "gmp-hold": ({"method": "gmp", "hold": True}, 1, True),
    "gmp-curvature": ({"method": "gmp", "score": "curvature"}, 0, True),
    "l2": ({"method": "l2"}, 0, True),
    "l2-decoupled": ({"method": "l2", "decoupled": True}, 0, True),
    "platon": ({"method": "platon"}, 12, True),
    "platon-prior": ({"method": "platon", "prior": {}}, 12, True),
    "itp": ({"method": "itp"}, 8, True),
    "movement": ({"method": "movement"}, 17, True),
    "soft_movement": ({"method": "soft_movement"}, 17, True),
    "obert": ({"method": "obert", "num_grads": 4, "block": 10, "batch_size": 1}, 5, False),
    "losparse": ({"method": "losparse"}, 8, True),
    "prior_annealing": ({"method": "prior_annealing"}, 1, True),
    "hold_mask": ({"method": "hold_mask"}, 1, True),
    "prior_annealing-threshold": ({"method": "prior_annealing", "exact": False}, 1, True),
    "mgpp-2x1": ({"method": "mgpp", "structure": "2x1"}, 0, False),  # a number or two a block, for a moment
    "mgpp-4x4": ({"method": "mgpp", "structure": "4x4"}, 0, False),
    "mgpp-1:4": ({"method": "mgpp", "structure": "1:4"}, 0, True),
    "gmp-hold-1:4": ({"method": "gmp", "hold": True, "structure": "1:4"}, 1, True),
}


def stack(width: int, dtype: torch.dtype = torch.float32, *, turned: bool = False) -> nn.Module:
    """Two layers; `turned`: their weights are not contiguous."""
    torch.manual_seed(0)
    model = nn.Module()
    model.layers = nn.ModuleList(nn.Linear(width, width, bias=False, dtype=dtype) for _ in range(2))
    if turned:
        for layer in model.layers:
            layer.weight = nn.Parameter(layer.weight.detach().t())
    return model


def weigh(
    settings: dict, model: nn.Module, folder: Path, change: Callable[[torch.Tensor], object] = torch.detach
) -> tuple[mgpp.Pruner, int]:
    """The pruner after a run, and the most bytes that it had allocated at once beside those it keeps. `change` is done
    to every weight before each step."""
    pruner = mgpp.Pruner(
        model,
        from_dict({**settings, **RAMP}),
        total_steps=STEPS,
        train_size=1000,
        include=["*"],
        gradients=lambda weights, count, **_: ([torch.ones_like(w) for w in weights] for _ in range(count)),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0)
    pruner.attach(optimizer, hooks=False)
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    optimizer.step()  # its states are not the pruner's cost
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(STEPS):
            pruner.before_step()
            for weight in model.parameters():
                change(weight.data)
            pruner.after_step()
    kept = [tensor for tensors in pruner.memory.state_dict().values() for tensor in tensors.values()]
    return pruner, peak_of(profiler, folder / "trace.json", kept)


def peak_of(profiler: profile, path: Path, kept: Sequence[torch.Tensor] = ()) -> int:
    """The most bytes that were allocated at once, beside the tensors that are kept."""
    profiler.export_chrome_trace(str(path))
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    changes = sorted((event for event in events if event["name"] == "[memory]"), key=lambda event: event["ts"])
    blocks = {(tensor.data_ptr(), tensor.nbytes) for tensor in kept}
    taken = [change["args"] for change in changes if (change["args"]["Addr"], change["args"]["Bytes"]) not in blocks]
    return max(itertools.accumulate(change["Bytes"] for change in taken))


def test_every_method_is_weighed():
    assert {settings["method"] for settings, _, _ in KEPT.values()} == set(METHODS)


@pytest.mark.parametrize("case", KEPT)
def test_a_method_keeps_no_more_than_its_card_says(case, tmp_path):
    settings, kept, constant = KEPT[case]
    pruner, peak = weigh(settings, stack(1500), tmp_path)
    assert pruner.memory.bytes / pruner.num_weights == kept
    if constant:
        assert 0 < peak < MOST


# Of a model of any size.
SMALL = [
    "mgpp", "mgpp-decoupled", "mgpp-curvature", "mgpp-fixed", "gmp", "gmp-hold", "gmp-curvature", "l2", "l2-decoupled",
]  # fmt: skip
CHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "none": torch.detach,
    "the cut moves": lambda weight: weight.mul_(3),
    "most score alike": lambda weight: weight.sign_().mul_(0.5),
    "all are zero": torch.zero_,
}
# For the profiler does not see the stacks of threads: 10 KiB each, and 17 KiB of the one that calls.
UNSEEN = MIB // 8


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("case", SMALL)
def test_compiled_passes_take_less_than_a_mebibyte(case, change, tmp_path):
    if passes.compiled() is None:
        pytest.skip("the passes cannot be compiled here")
    pruner, peak = weigh(KEPT[case][0], stack(1100), tmp_path, CHANGES[change])
    assert pruner.last_record["step"] == STEPS
    assert 0 < peak < (MIB - UNSEEN if pruner.memory.bytes else MIB / 2)


WEIGHTS: dict[str, dict] = {"float32": {}, "bfloat16": {"dtype": torch.bfloat16}, "turned": {"turned": True}}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("case", SMALL)
def test_nor_do_torchs_operations(case, change, weights, tmp_path, monkeypatch):
    monkeypatch.setattr(passes, "compiled", lambda: None)
    _, peak = weigh(KEPT[case][0], stack(700, **WEIGHTS[weights]), tmp_path, CHANGES[change])
    assert 0 < peak < MIB - UNSEEN


@pytest.mark.parametrize("k", [1_000_000, 1_600_000, 2_249_999])
def test_nor_does_an_event_among_infinities_and_nan(k, tmp_path):
    if passes.compiled() is None:
        pytest.skip("the passes cannot be compiled here")
    weight = torch.randn(1500, 1500)
    weight[:700], weight[:70] = torch.inf, torch.nan
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kernels.zero_smallest_([weight], k, scratch={})
    assert 0 < peak_of(profiler, tmp_path / "trace.json") < MIB / 2


def test_nor_does_an_event_by_curvature_where_all_score_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(passes, "compiled", lambda: None)
    weight, moment, scratch = torch.empty(400, 400), torch.full((400, 400), 0.1), {}
    how = {"score": curvature, "inputs": [(moment, torch.tensor(0.5))], "kernel": "curvature", "scratch": scratch}
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(2):  # the second has a prediction
            kernels.zero_smallest_([weight.fill_(0.5)], 90_000, **how)
    assert int(weight.count_nonzero()) == 70_000
    assert 0 < peak_of(profiler, tmp_path / "trace.json") < MIB - UNSEEN


RECOMMENDED = [{}, {"decoupled": True, "score": "curvature"}]


def weigh_step(settings: dict, model: nn.Module, folder: Path, *, looks: int) -> int:
    """The same of steps of mgpp.AdamW."""
    run = {"total_steps": STEPS, "train_size": 1000, "include": ["*"], "looks": looks}
    pruner = mgpp.Pruner(model, mgpp.MGPP(**settings, **RAMP), **run)
    optimizer = mgpp.AdamW(model.parameters(), lr=1e-3)
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    optimizer.step()
    pruner.attach(optimizer)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(STEPS):
            optimizer.step()
    assert (pruner.last_look is not None) == bool(looks)
    return peak_of(profiler, folder / "trace.json")


@pytest.mark.parametrize(("looks", "most"), [(0, MIB / 2), (100, 0.8 * MIB)])
@pytest.mark.parametrize("settings", RECOMMENDED, ids=["coupled", "recommended"])
def test_a_step_of_mgpps_adamw_takes_no_more_and_a_look_little_more(settings, looks, most, tmp_path):
    if passes.compiled() is None:
        pytest.skip("the passes cannot be compiled here")
    assert 0 < weigh_step(settings, stack(1500), tmp_path, looks=looks) < most


@pytest.mark.parametrize("weights", ["float32", "bfloat16"])
@pytest.mark.parametrize("settings", RECOMMENDED, ids=["coupled", "recommended"])
def test_nor_does_that_step_by_torchs_operations(settings, weights, tmp_path, monkeypatch):
    monkeypatch.setattr(passes, "compiled", lambda: None)
    assert 0 < weigh_step(settings, stack(1100, **WEIGHTS[weights]), tmp_path, looks=100) < MIB


def test_a_look_at_weights_that_are_not_contiguous_copies_only_its_sample(tmp_path):
    weights = [torch.randn(1500, 1500).t(), torch.randn(2, 3).t(), torch.randn(1400, 1500).t()]
    survey = Survey([weight.numel() for weight in weights], Schedule(initial_sparsity=0.0, last=STEPS, **RAMP), looks=1)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        sample = survey.sample(weights)
    assert 0 < peak_of(profiler, tmp_path / "trace.json") < 2 * MIB
    everything = torch.cat([weight.reshape(-1) for weight in weights])
    assert torch.equal(sample, everything[:: survey.stride].abs())


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("dtype", "large"), [(torch.float16, 6e4), (torch.bfloat16, 3e38), (torch.float32, 3e38)])
def test_large_gradients_are_finite_too_and_a_look_at_them_copies_none(dtype, large, turned, tmp_path, monkeypatch):
    monkeypatch.setattr(passes, "compiled", lambda: None)
    grad = torch.full((1100, 1100), large, dtype=dtype)
    grad = grad.t() if turned else grad
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        assert math.isfinite(largest_of([grad]))
    assert 0 < peak_of(profiler, tmp_path / "trace.json") < MIB / 2
    for odd in (torch.inf, -torch.inf, torch.nan):
        grad[-1, -1] = odd
        assert not math.isfinite(largest_of([torch.ones(3), grad]))
