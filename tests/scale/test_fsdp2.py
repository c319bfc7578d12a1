"""FSDP2 over gloo: each of 2 and 4 processes has some rows of every weight, and all prune as one process would."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard

import mgpp
from tests.scale.processes import run_processes
from tests.scale.training import (
    CLOSE,
    Outcome,
    assert_same,
    my_batches,
    only_prune,
    outcome,
    skipping,
    start,
    take_steps,
    train,
)
from tests.test_contract import CASES, STEPS, method_of
from tests.toy import Toy, ToyOfExperts, assert_identical

ON_TWO = [
    "mgpp", "mgpp-faster", "mgpp-decoupled", "mgpp-curvature", "mgpp-fixed", "gmp-hold", "l2", "l2-decoupled",
    "platon-prior", "itp", "movement", "movement-global", "hold-mask", "soft-movement", "soft-movement-original",
    "prior-annealing-late", "prior-annealing-threshold",
]  # fmt: skip
ON_FOUR = ["mgpp", "gmp-hold-curvature", "platon-prior", "movement"]
OF_EXPERTS = ["platon-prior", "movement"]
RESUMED = ["platon-prior", "gmp-hold"]
REFUSED = ["obert", "losparse", "mgpp-2x1", "movement-2x1"]
STOP = 9


def shard(model: nn.Module, mesh: Any = None, **settings: Any) -> nn.Module:
    mesh = mesh if mesh is not None else init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **settings)
    return fully_shard(model, mesh=mesh, **settings)


def said(act: Any) -> str:
    """The error's words."""
    try:
        act()
    except (ValueError, FloatingPointError) as error:
        return str(error)
    return ""


def save_half(case: str, folder: Path) -> None:
    model = shard(Toy())
    pruner, optimizer, _ = start(case, model)
    take_steps(model, optimizer, my_batches(), STOP)
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=folder / case / "torch")
    pruner.save(folder / case)


def resume(case: str, folder: Path) -> Outcome:
    model = shard(Toy(seed=5)) if dist.is_initialized() else Toy(seed=5)
    pruner, optimizer, records = start(case, model)
    weights, moments = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=folder / case / "torch")
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    pruner.load(folder / case)
    assert pruner.t == STOP
    take_steps(model, optimizer, skipping(my_batches(), STOP), STEPS - STOP)
    return outcome(model, pruner, records)


def reloaded(case: str) -> bool:
    """A state dict holds DTensors, and comes back from them and from whole tensors alike."""
    model = shard(Toy())
    pruner, optimizer, _ = start(case, model)
    take_steps(model, optimizer, my_batches(), STOP)
    state = pruner.state_dict()
    kept = [tensor for of in state["memory"].values() for tensor in of.values()]
    gathered = {kind: {n: t.full_tensor() for n, t in of.items()} for kind, of in state["memory"].items()}
    same = all(isinstance(tensor, DTensor) for tensor in kept)
    for memory in (state["memory"], gathered):
        other = mgpp.Pruner(model, method_of(case), total_steps=STEPS, train_size=64)
        other.load_state_dict({**state, "memory": memory})
        pairs = zip(other.memory._kinds.values(), pruner.memory._kinds.values(), strict=True)
        same &= all(torch.equal(a, b) for mine, theirs in pairs for a, b in zip(mine, theirs, strict=True))
    return same and len(kept) == 12


def one_bad_gradient() -> str:
    model = shard(Toy())
    _, optimizer, _ = start("mgpp", model)
    model(**next(my_batches()))["loss"].backward()
    if dist.get_rank() == 1:
        model.blocks[0][0].weight.grad.to_local()[0, 0] = float("nan")
    return said(optimizer.step)


def sharded_too_late() -> str:
    model = Toy()
    pruner = mgpp.Pruner(model, method_of("mgpp"), total_steps=STEPS, train_size=64)
    shard(model)
    return said(lambda: pruner.attach(torch.optim.AdamW(model.parameters())))


def sharded_by_columns() -> str:
    return said(lambda: start("mgpp", shard(Toy(), shard_placement_fn=lambda param: Shard(param.dim() - 1))))


def two_processes(folder: Path) -> dict[str, Any]:
    bf16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return {
        "trained": {case: train(case, shard) for case in ON_TWO},
        "experts": {case: train(case, shard, make=ToyOfExperts) for case in OF_EXPERTS},
        "tied": only_prune(shard),
        "resumed": {case: resume(case, folder) for case in RESUMED},
        "refused": {case: said(lambda case=case: start(case, shard(Toy()))) for case in REFUSED},
        "bf16": train("mgpp", lambda model: shard(model, mp_policy=bf16)),
        "offloaded": train("mgpp", lambda model: shard(model, offload_policy=CPUOffloadPolicy(pin_memory=False))),
        "own adamw": train("mgpp", shard, optimizer=lambda params: mgpp.AdamW(params, lr=1e-2, weight_decay=0)),
        "reloaded": reloaded("platon"),
        "bad gradient": one_bad_gradient(),
        "late": sharded_too_late(),
        "columns": sharded_by_columns(),
    }


def four_processes(folder: Path) -> dict[str, Any]:
    for case in RESUMED:
        save_half(case, folder)
    replicas = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = shard(Toy())
    pruner, optimizer, _ = start("platon", model, include=["*weight"])
    take_steps(model, optimizer, my_batches(), 6)
    return {
        "trained": {case: train(case, shard) for case in ON_FOUR},
        "experts": {"platon-prior": train("platon-prior", shard, make=ToyOfExperts)},
        "tied": only_prune(shard),
        "empty": (pruner.targets["head.weight"].to_local().numel(), pruner.memory.bytes, pruner.zeros),
        "hsdp": train("mgpp", lambda model: shard(model, replicas)),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fsdp2")


@pytest.fixture(scope="module")
def four(folder: Path) -> list[dict[str, Any]]:
    return run_processes(4, four_processes, folder)


@pytest.fixture(scope="module")
def two(folder: Path, four: Any) -> list[dict[str, Any]]:
    return run_processes(2, two_processes, folder)


def test_the_cases_are_all_that_can_be_sharded():
    assert {CASES[case]["method"] for case in ON_TWO + REFUSED} == {settings["method"] for settings in CASES.values()}


@pytest.mark.parametrize("case", ON_TWO)
def test_two_processes_prune_what_one_does(case, two):
    alone = train(case)
    for process in two:
        assert_same(process["trained"][case], alone)


@pytest.mark.parametrize("case", ON_FOUR)
def test_four_processes_prune_what_one_does(case, four):
    alone = train(case)
    for process in four:
        assert_same(process["trained"][case], alone)


def test_stacks_are_sharded_by_expert_and_pruned_as_one_process_does(two, four):
    for process in (*two, *four):
        for case, trained in process["experts"].items():
            assert_same(trained, train(case, make=ToyOfExperts))


def test_of_the_same_weights_the_very_same_ones_go_ties_too(two, four):
    alone = only_prune()
    for process in (*two, *four):
        assert_identical(process["tied"], alone)


def test_all_processes_tell_the_same_records(two, four):
    for processes in (two, four):
        for case, told in processes[0]["trained"].items():
            assert all(process["trained"][case].records == told.records for process in processes)


def test_a_process_may_hold_nothing_of_a_weight_and_memory_is_of_the_part_held(four):
    held, kept, zeros = zip(*(process["empty"] for process in four), strict=True)
    assert held == (8, 8, 8, 0)  # three rows for four processes
    assert sum(kept) == 12 * 408
    assert max(kept) <= 12 * (408 / 4 + 8)
    assert all(zero == zeros[0] for zero in zeros)
    assert sum(zeros[0].values()) > 0


def test_replicas_of_shards_prune_as_one_process_does(four):
    alone = train("mgpp")
    for process in four:
        assert_same(process["hsdp"], alone)


@pytest.mark.parametrize("case", RESUMED)
def test_what_four_processes_saved_goes_on_with_two_and_with_one(case, folder, four, two):
    undisturbed = train(case)
    undisturbed.records = [record for record in undisturbed.records if record["step"] > STOP]
    for process in two:
        assert_same(process["resumed"][case], undisturbed)
    assert_same(resume(case, folder), undisturbed)


def test_a_state_dict_comes_back_from_its_dtensors_and_from_whole_tensors(two):
    assert all(process["reloaded"] for process in two)


def test_offloaded_weights_and_our_own_adamw_give_the_same_masks(two):
    alone = train("mgpp")
    for process in two:
        assert_same(process["offloaded"], alone)
        assert_same(process["own adamw"], alone)


def test_a_policy_of_bfloat16_prunes_the_float32_weights_exactly(two):
    first = two[0]["bf16"]
    assert first.sparsity == 0.75
    assert all(weight.dtype == torch.float32 for weight in first.weights.values())
    for name, weight in first.weights.items():
        torch.testing.assert_close(two[1]["bf16"].weights[name], weight, rtol=0, atol=0)
    assert any((first.weights[name] - weight).abs().max() > CLOSE for name, weight in train("mgpp").weights.items())


@pytest.mark.parametrize("case", REFUSED)
def test_methods_that_need_whole_weights_refuse_shards(case, two):
    for process in two:
        assert "cannot work where FSDP2 shards the weights" in process["refused"][case]


def test_a_gradient_that_is_not_finite_in_one_process_stops_all(two):
    assert ["in another process" in process["bad gradient"] for process in two] == [True, False]
    assert "the gradient of step 1 is nan" in two[1]["bad gradient"]


def test_sharding_after_the_pruner_was_made_is_refused_by_name(two):
    assert all("blocks.0.0.weight" in process["late"] and "fully_shard" in process["late"] for process in two)


def test_only_shards_of_rows_are_taken(two):
    assert all("Shard(dim=1)" in process["columns"] for process in two)


def test_fsdp1_is_refused_with_the_way_to_fsdp2():
    class FullyShardedDataParallel(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

    with pytest.raises(ValueError, match="FSDP2"):
        mgpp.Pruner(FullyShardedDataParallel(Toy()), method_of("gmp"), total_steps=STEPS)
