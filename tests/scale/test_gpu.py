"""FSDP2 over NCCL, on as many GPUs as there are. Skipped, and said so, without one."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy

import mgpp
from tests.scale.processes import run_processes
from tests.scale.test_fsdp2 import shard
from tests.scale.training import assert_same, train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CASES = ["mgpp", "mgpp-curvature", "gmp-hold", "platon-prior", "movement"]


def on_a_gpu() -> dict[str, Any]:
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    bf16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    own = {"optimizer": lambda params: mgpp.AdamW(params, lr=1e-2, weight_decay=0)}
    return {
        "trained": {case: train(case, lambda model: shard(model, mesh), device="cuda") for case in CASES},
        "own adamw": train("mgpp", lambda model: shard(model, mesh), device="cuda", **own),
        "bf16": train("mgpp", lambda model: shard(model, mesh, mp_policy=bf16), device="cuda"),
        "offloaded": train("mgpp", lambda model: shard(model, mesh, offload_policy=CPUOffloadPolicy()), device="cuda"),
    }


@pytest.fixture(scope="module")
def processes() -> list[dict[str, Any]]:
    return run_processes(torch.cuda.device_count(), on_a_gpu, backend="cpu:gloo,cuda:nccl")


@pytest.mark.parametrize("case", CASES)
def test_the_gpus_prune_what_one_plain_process_does(case, processes):
    alone = train(case, device="cuda")
    for process in processes:
        assert_same(process["trained"][case], alone)


def test_offloaded_weights_and_our_own_adamw_give_the_same_masks(processes):
    alone = train("mgpp", device="cuda")
    for process in processes:
        assert_same(process["own adamw"], alone)
        assert_same(process["offloaded"], alone)


def test_a_policy_of_bfloat16_prunes_exactly(processes):
    assert all(process["bf16"].sparsity == 0.75 for process in processes)
