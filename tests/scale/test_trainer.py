"""The Trainer with the callback, through Accelerate: DDP, FSDP2 and ZeRO prune what one process does, and go on."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch import Tensor
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback

import mgpp
from mgpp import records
from tests.scale.engines import has_deepspeed
from tests.scale.processes import run_processes
from tests.scale.training import Outcome, assert_same, train, whole
from tests.test_contract import method_of
from tests.test_trainer import InOrder, arguments
from tests.toy import Toy, assert_identical, rows

CASE = "platon-prior"
STOP = 14
ENGINES = ["ddp", "fsdp2", "zero2", "zero3"]
needs_deepspeed = pytest.mark.skipif(not has_deepspeed(), reason="DeepSpeed is not installed (make puts it there)")
every_engine = pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=needs_deepspeed if name.startswith("zero") else ()) for name in ENGINES]
)

FSDP2 = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_TRANSFORMER_CLS_TO_WRAP": "Sequential",
    "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
}


def take_the_cpu_for_a_gpu() -> None:
    """Accelerate offers FSDP and DeepSpeed on accelerators only, though both run on a CPU."""
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType

    original = PartialState.__init__

    def init(self: Any, cpu: bool = False, **kwargs: Any) -> None:
        original(self, cpu=True, **kwargs)
        if self.distributed_type == DistributedType.MULTI_CPU:
            self.distributed_type = DistributedType.MULTI_GPU

    PartialState.__init__ = init


def settings_of(engine: str) -> dict[str, Any]:
    if engine == "ddp":
        return {}
    take_the_cpu_for_a_gpu()
    if engine == "fsdp2":
        os.environ |= FSDP2
        return {}
    config = {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "zero_optimization": {"stage": int(engine[-1])},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    return {"deepspeed": config, "use_cpu": False}


class Save(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        control.should_save = state.global_step == STOP


class Drift(TrainerCallback):
    """As if a kernel had not been deterministic, in one process."""

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == STOP and dist.get_rank() == 1:
            weight = kwargs["model"].blocks[0][0].weight.data
            weight[0, 0] = 1.0 if weight[0, 0] == 0 else 0.0


def weights_of(trainer: InOrder, engine: str) -> dict[str, Tensor]:
    if not engine.startswith("zero"):
        return {name: whole(param) for name, param in trainer.model.named_parameters()}
    from deepspeed.utils import safe_get_full_fp32_param

    return {name: safe_get_full_fp32_param(param).clone() for name, param in trainer.model.named_parameters()}


def train_in(engine: str, folder: Path, resume: bool = False, *more: TrainerCallback) -> dict[str, Any]:
    size = dist.get_world_size() if dist.is_initialized() else 1
    pruning = mgpp.PruningCallback(method_of(CASE))
    trainer = InOrder(
        model=Toy(seed=5 if resume else 0),
        args=arguments(folder, per_device_train_batch_size=8 // size, save_strategy="steps", **settings_of(engine)),
        train_dataset=rows(),
        callbacks=[pruning, *more, Save()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(folder / f"checkpoint-{STOP}") if resume else None)
    pruner = pruning.pruner
    return {
        "outcome": Outcome(weights_of(trainer, engine), [], pruner.sparsity, pruner.zeros),
        "sharded": pruner.is_sharded,
        "run": pruner.run,
        "size": trainer.args.world_size,
    }


def drift(folder: Path) -> str:
    try:
        train_in("ddp", folder, False, Drift())
    except RuntimeError as error:
        return str(error)
    return ""


def told(folder: Path) -> list[dict[str, Any]]:
    return [record for record in records.read(folder / "records.jsonl") if record["event"] == "prune"]


@pytest.fixture(scope="module")
def alone() -> Outcome:
    return train(CASE)


@every_engine
def test_two_processes_prune_what_one_does_and_one_of_them_writes(engine, alone, tmp_path):
    for process in run_processes(2, train_in, engine, tmp_path):
        process["outcome"].records = told(tmp_path)
        assert_same(process["outcome"], alone)
        assert process["sharded"] == (engine != "ddp")
        assert process["size"] == 2
        # n is the whole data set, an epoch its rows over both processes' batches, t the optimizer's steps.
        assert (process["run"].train_size, process["run"].steps_per_epoch) == (64, 8)
    checkpoint = tmp_path / f"checkpoint-{STOP}"
    parts = sorted(path.name for path in checkpoint.glob("pruner*"))
    assert parts == ["pruner.safetensors"] if engine == "ddp" else len(parts) == 3

    size = 2 if engine.startswith("zero") else 4  # DeepSpeed's own checkpoints are for one number of processes
    for process in run_processes(size, train_in, engine, tmp_path, True):
        process["outcome"].records = told(tmp_path)
        assert_same(process["outcome"], alone)


def test_what_processes_of_ddp_hold_is_the_same_to_the_bit(tmp_path):
    first, second = run_processes(2, train_in, "ddp", tmp_path)
    assert_identical(second["outcome"].weights, first["outcome"].weights)


def test_replicas_that_have_drifted_apart_are_noticed_before_a_checkpoint_counts(tmp_path):
    for words in run_processes(2, drift, tmp_path):
        assert "blocks.0.0.weight" in words
        assert "have pruned different ones" in words
    assert not (tmp_path / f"checkpoint-{STOP}" / "pruner.safetensors").exists()
