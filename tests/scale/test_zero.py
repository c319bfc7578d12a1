"""DeepSpeed ZeRO over gloo: the weights lie in pieces of flat tensors, and are pruned inside DeepSpeed's own step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import mgpp
from mgpp.checkpoint import read_state
from tests.scale.engines import has_deepspeed
from tests.scale.processes import run_processes
from tests.scale.training import Outcome, assert_same, my_batches, plain_adamw, skipping, train
from tests.test_contract import STEPS, method_of
from tests.toy import Toy, ToyOfExperts, assert_identical

pytestmark = pytest.mark.skipif(not has_deepspeed(), reason="DeepSpeed is not installed (make puts it beside .venv)")

CASES = ["mgpp", "gmp-hold-curvature", "platon-prior", "movement"]
STOP = 9


def initialize(model: nn.Module, optimizer: Any, stage: int, **settings: Any) -> Any:
    import deepspeed

    deepspeed.init_distributed("gloo", verbose=False)
    zero = {"stage": stage, "sub_group_size": 100, **settings.pop("zero", {})}
    config = {
        "train_micro_batch_size_per_gpu": 8 // dist.get_world_size(),
        "gradient_clipping": 0.0,  # DeepSpeed's default is 1
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        **settings,
    }
    return deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]


def many_groups(model: nn.Module) -> torch.optim.Optimizer:
    """As with a learning rate for each layer: the weights to prune lie in different groups."""
    params = list(model.parameters())
    return plain_adamw([{"params": params[:5]}, {"params": params[5:9]}, {"params": params[9:]}])


class Training:
    def __init__(
        self,
        case: str,
        stage: int,
        *,
        seed: int = 0,
        groups: bool = False,
        make: Callable[..., nn.Module] = Toy,
        **settings: Any,
    ) -> None:
        self.model = make(seed=seed)
        optimizer = many_groups(self.model) if groups else plain_adamw(self.model.parameters())
        self.engine = initialize(self.model, optimizer, stage, **settings)
        self.records: list[dict[str, Any]] = []
        self.pruner = mgpp.Pruner(
            self.model, method_of(case), total_steps=STEPS, train_size=64, on_record=self.records.append
        )
        self.pruner.attach(self.engine)

    def take_steps(self, data: Any, steps: int) -> None:
        dtype = next(self.model.parameters()).dtype
        for _ in range(steps):
            batch = next(data)
            self.engine.backward(self.engine(x=batch["x"].to(dtype), labels=batch["labels"])["loss"])
            self.engine.step()

    def outcome(self) -> Outcome:
        from deepspeed.utils import safe_get_full_fp32_param

        masters = {name: safe_get_full_fp32_param(param).clone() for name, param in self.model.named_parameters()}
        return Outcome(masters, self.records, self.pruner.sparsity, self.pruner.zeros)

    def used(self) -> dict[str, torch.Tensor]:
        """The weights that the model computes with."""
        import deepspeed

        params = dict(self.model.named_parameters())
        with deepspeed.zero.GatheredParameters(list(params.values()), enabled=hasattr(params["head.weight"], "ds_id")):
            return {name: param.detach().float().clone() for name, param in params.items()}


def run(case: str, stage: int, **settings: Any) -> tuple[Outcome, dict[str, torch.Tensor]]:
    training = Training(case, stage, **settings)
    training.take_steps(my_batches(), STEPS)
    return training.outcome(), training.used()


def save(stage: int, folder: Path) -> None:
    training = Training("platon-prior", stage)
    training.take_steps(my_batches(), STOP)
    training.engine.save_checkpoint(str(folder / "deepspeed"))
    training.pruner.save(folder)


def resume(stage: int, folder: Path) -> Outcome:
    training = Training("platon-prior", stage, seed=5)
    training.engine.load_checkpoint(str(folder / "deepspeed"))
    training.pruner.load(folder)
    training.take_steps(skipping(my_batches(), STOP), STEPS - STOP)
    return training.outcome()


def said(case: str, stage: int, **settings: Any) -> str:
    try:
        Training(case, stage, **settings)
    except ValueError as error:
        return str(error)
    return ""


def skipped_at_the_end() -> tuple[Outcome, dict[str, torch.Tensor]]:
    """A run whose last steps never came is pruned to its target by `finish`, in all that the model computes with."""
    training = Training("gmp", 3)
    training.take_steps(my_batches(), 10)
    training.pruner.finish()
    return training.outcome(), training.used()


def astray() -> list[str]:
    """What is said to who asks too early, and to who attaches to the optimizer that DeepSpeed was given."""
    model = Toy()
    optimizer = plain_adamw(model.parameters())
    initialize(model, optimizer, 3)
    pruner = mgpp.Pruner(model, method_of("gmp"), total_steps=STEPS)
    words = [str(pruner.num_weights)]
    for act in (lambda: pruner.sparsity, lambda: pruner.attach(optimizer)):
        try:
            act()
        except (RuntimeError, ValueError) as error:
            words.append(str(error))
    return words


def two_processes(folder: Path) -> dict[str, Any]:
    bf16 = {"bf16": {"enabled": True}}
    save(2, folder / "two")
    moved = Training("platon-prior", 1)
    moved.pruner.load(folder / "four")
    moved.pruner.save(folder / "moved")
    return {
        "trained": {(case, stage): run(case, stage) for case in CASES for stage in (1, 2)}
        | {(case, 3): run(case, 3) for case in CASES[:2]},
        "experts": {stage: run("platon-prior", stage, make=ToyOfExperts) for stage in (2, 3)},
        "groups": {(case, stage): run(case, stage, groups=True) for case, stage in (("movement", 2), ("hold-mask", 3))},
        "bf16": {stage: run("mgpp", stage, **bf16) for stage in (1, 2, 3)},
        "offloaded": {stage: run("mgpp", stage, zero={"offload_optimizer": {"device": "cpu"}}) for stage in (2, 3)},
        "resumed": resume(2, folder / "two"),
        "finished": skipped_at_the_end(),
        "refused": [said("losparse", 1), said("mgpp-2x1", 3)],
        "faster": said("mgpp-faster", 1),
        "astray": astray(),
    }


def four_processes(folder: Path) -> dict[str, Any]:
    save(3, folder / "four")
    return {"trained": {("mgpp", 2): run("mgpp", 2), ("platon-prior", 3): run("platon-prior", 3)}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zero")


@pytest.fixture(scope="module")
def four(folder: Path) -> list[dict[str, Any]]:
    return run_processes(4, four_processes, folder)


@pytest.fixture(scope="module")
def two(folder: Path, four: Any) -> list[dict[str, Any]]:
    return run_processes(2, two_processes, folder)


def assert_used(outcome: Outcome, used: dict[str, torch.Tensor], dtype: torch.dtype = torch.float32) -> None:
    """The model computes with what was pruned."""
    assert_identical(used, {name: weight.to(dtype).float() for name, weight in outcome.weights.items()})


def test_every_stage_prunes_what_one_process_does_on_two_and_on_four(two, four):
    alone = {case: train(case) for case in CASES}
    for process in (*two, *four):
        for (case, _), (outcome, used) in process["trained"].items():
            assert_same(outcome, alone[case])
            assert_used(outcome, used)


def test_stacks_of_experts_are_pruned_as_one_process_does(two):
    alone = train("platon-prior", make=ToyOfExperts)
    for process in two:
        for outcome, used in process["experts"].values():
            assert_same(outcome, alone)
            assert_used(outcome, used)


def test_weights_in_several_groups_are_pruned_together(two):
    for process in two:
        for (case, _), (outcome, used) in process["groups"].items():
            assert_same(outcome, train(case))
            assert_used(outcome, used)


def test_the_float32_weights_behind_bfloat16_ones_are_pruned(two):
    for process in two:
        for outcome, used in process["bf16"].values():
            assert outcome.sparsity == 0.75
            assert_used(outcome, used, torch.bfloat16)


def test_an_offloaded_optimizer_prunes_the_same(two):
    alone = train("mgpp")
    for process in two:
        for outcome, used in process["offloaded"].values():
            assert_same(outcome, alone)
            assert_used(outcome, used)


def test_a_checkpoint_goes_on_where_it_was_taken(two):
    undisturbed = train("platon-prior")
    undisturbed.records = [record for record in undisturbed.records if record["step"] > STOP]
    for process in two:
        assert_same(process["resumed"], undisturbed)


def test_what_four_processes_of_stage_3_kept_two_of_stage_1_read_bit_for_bit(two, folder):
    saved, moved = read_state(folder / "four"), read_state(folder / "moved")
    assert len(list((folder / "four").glob("pruner-9-*-of-00004.safetensors"))) == 4
    assert saved.pop("memory").keys() == moved["memory"].keys()
    for kind, tensors in read_state(folder / "four")["memory"].items():
        assert_identical(moved["memory"][kind], tensors)
        assert {name: tensor.numel() for name, tensor in tensors.items()} == dict.fromkeys(tensors, 96)
    assert {key: moved[key] for key in saved} == saved


def test_a_run_that_skipped_steps_reaches_its_target_in_what_the_model_computes_with(two):
    for process in two:
        outcome, used = process["finished"]
        assert outcome.sparsity == 0.75
        assert_used(outcome, used)


def test_who_asks_before_attaching_or_attaches_to_the_wrong_optimizer_is_told(two):
    for process in two:
        size, early, wrong = process["astray"]
        assert size == "384"
        assert "pruner.attach(engine)" in early
        assert "attach to the engine" in wrong


def test_methods_that_need_whole_weights_refuse(two):
    for process in two:
        assert all("cannot work where DeepSpeed" in words for words in process["refused"])


def test_a_rate_of_their_own_is_refused_where_weights_lie_in_one_piece_with_others(two):
    assert all(process["faster"].endswith("keeps them in one piece with others: set lr_power=0") for process in two)
