"""The Trainer's one line does what the raw loop does, bit for bit, and survives being stopped."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from torch.utils.data import IterableDataset, SequentialSampler
from transformers import Trainer, TrainerCallback, TrainingArguments

import mgpp
from mgpp import records
from mgpp.checkpoint import STATE_FILE, read_state, write_state
from tests.test_contract import CASES, RAMP, STEPS, method_of
from tests.toy import Toy, assert_identical, batches, rows, weights_of

every_method = pytest.mark.parametrize("case", CASES)


class InOrder(Trainer):
    """Takes the rows as they come, as the raw loop of these tests does."""

    def _get_train_sampler(self, *args, **kwargs) -> SequentialSampler:
        return SequentialSampler(self.train_dataset)


def arguments(folder: Path, **more) -> TrainingArguments:
    settings = {
        "max_steps": STEPS,
        "per_device_train_batch_size": 8,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
        "optim": "adamw_torch",
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "seed": 3,
    }
    return TrainingArguments(output_dir=str(folder), **{**settings, **more})


def trainer_for(case: str, folder: Path, *, kind=InOrder, callbacks=(), **more) -> tuple[Trainer, mgpp.PruningCallback]:
    pruning = mgpp.PruningCallback(method_of(case))
    trainer = kind(model=Toy(), args=arguments(folder, **more), train_dataset=rows(), callbacks=[pruning, *callbacks])
    return trainer, pruning


def raw_loop(case: str, *, clip: float = 0.0) -> dict[str, torch.Tensor]:
    model = Toy()
    sampler = mgpp.GradientSampler(model, rows(), seed=3)
    pruner = mgpp.Pruner(model, method_of(case), total_steps=STEPS, train_size=64, gradients=sampler)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
    pruner.attach(optimizer)
    data = batches()
    for _ in range(STEPS):
        model(**next(data))["loss"].backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
    return weights_of(model)


@every_method
@pytest.mark.parametrize("clip", [0.0, 0.1])
def test_the_callback_gives_the_raw_loops_weights(case, clip, tmp_path):
    trainer, _ = trainer_for(case, tmp_path, max_grad_norm=clip)
    trainer.train()
    assert_identical(weights_of(trainer.model), raw_loop(case, clip=clip))


def test_a_trainer_takes_our_own_optimizer_by_its_class(tmp_path):
    args = arguments(tmp_path)
    pruning = mgpp.PruningCallback(mgpp.recommended(**RAMP))
    by_class = (mgpp.AdamW, {"lr": args.learning_rate})
    trainer = InOrder(
        model=Toy(), args=args, train_dataset=rows(), callbacks=[pruning], optimizer_cls_and_kwargs=by_class
    )
    trainer.train()
    assert isinstance(trainer.optimizer.optimizer, mgpp.AdamW)
    assert pruning.pruner.sparsity == pytest.approx(RAMP["sparsity"], abs=0.01)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[dict[str, torch.Tensor], bytes]]:
    """The weights and the records of a case's run."""

    @cache
    def run(case: str) -> tuple[dict[str, torch.Tensor], bytes]:
        folder = tmp_path_factory.mktemp("whole")
        trainer, _ = trainer_for(case, folder, kind=Trainer)
        trainer.train()
        return weights_of(trainer.model), (folder / "records.jsonl").read_bytes()

    return run


@every_method
@pytest.mark.parametrize("stop", [2, 9, 15])
def test_a_stopped_training_resumes_to_the_same_bits_and_records(case, stop, undisturbed, tmp_path):
    weights, told = undisturbed(case)

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_save = state.global_step == stop
            control.should_training_stop = state.global_step == stop + 2  # beyond the save: this must be forgotten

    first, _ = trainer_for(case, tmp_path, kind=Trainer, callbacks=[Stop()])
    first.train()
    second, pruning = trainer_for(case, tmp_path, kind=Trainer)
    second.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{stop}"))

    assert pruning.pruner.t == STEPS
    assert_identical(weights_of(second.model), weights)
    assert (tmp_path / "records.jsonl").read_bytes() == told


def test_records_tell_the_start_every_loss_and_every_event(tmp_path):
    trainer, pruning = trainer_for("mgpp", tmp_path)
    trainer.train()
    told = records.read(tmp_path / "records.jsonl")
    assert told[0]["event"] == "start"
    assert told[0]["schedule"] == {
        "sparsity": 0.75, "initial_sparsity": 0.0, "start": 4, "end": 14, "every": 3, "last": STEPS, "held": False,
        "lr_power": 0.0,
    }  # fmt: skip
    assert told[0]["weights"] == {name: weight.numel() for name, weight in pruning.pruner.targets.items()}
    assert [r["step"] for r in told if r["event"] == "prune"] == [6, 9, 12, 15, 16, 17, 18, 19, 20]
    assert [r["step"] for r in told if r["event"] == "log" and "loss" in r] == list(range(1, STEPS + 1))


def test_accumulation_and_epochs_are_counted_in_optimizer_steps(tmp_path):
    method = mgpp.MGPP(sparsity=0.5, start="1ep", end="3ep", every=1)
    pruning = mgpp.PruningCallback(method)
    args = arguments(
        tmp_path, max_steps=-1, num_train_epochs=4, per_device_train_batch_size=4, gradient_accumulation_steps=3
    )
    Trainer(model=Toy(), args=args, train_dataset=rows(), callbacks=[pruning]).train()
    # 64 rows / 4 = 16 batches; 16 batches / 3 = 5 full steps and a shorter sixth.
    assert (pruning.pruner.schedule.start, pruning.pruner.schedule.end) == (6, 18)
    assert pruning.pruner.t == 24
    assert pruning.pruner.run.train_size == 64
    assert pruning.pruner.sparsity == 0.5


def test_training_twice_with_one_callback_starts_anew(tmp_path):
    trainer, pruning = trainer_for("gmp", tmp_path)
    trainer.train()
    trainer.train()
    assert pruning.pruner.t == STEPS


def test_bf16_training_prunes_exactly(tmp_path):
    trainer, pruning = trainer_for("mgpp", tmp_path, bf16=True)
    trainer.train()
    assert pruning.pruner.sparsity == 0.75


def test_stopping_early_warns_and_does_not_prune_behind_the_users_back(tmp_path, caplog):
    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == 8

    trainer, pruning = trainer_for("gmp-hold", tmp_path, callbacks=[Stop()])
    trainer.train()
    assert 0 < pruning.pruner.sparsity < 0.75
    assert "stopped at step 8 of 20" in caplog.text


def test_stopping_after_the_ramp_warns_of_nothing_where_the_last_block_did_not_fit(tmp_path, caplog):
    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == 16

    trainer, pruning = trainer_for("platon-5x3", tmp_path, callbacks=[Stop()])
    trainer.train()
    assert pruning.pruner.sparsity < 0.75
    assert not caplog.text


def test_loading_the_best_model_at_the_end_is_refused(tmp_path):
    trainer, _ = trainer_for("mgpp", tmp_path)
    trainer.args.load_best_model_at_end = True
    with pytest.raises(ValueError, match="load_best_model_at_end=True"):
        trainer.train()


def test_a_stream_needs_its_size_told(tmp_path):
    class Stream(IterableDataset):
        def __iter__(self):
            while True:
                yield from rows()

    args = arguments(tmp_path)
    pruning = mgpp.PruningCallback(mgpp.MGPP(**RAMP))
    with pytest.raises(ValueError, match="train_size"):
        Trainer(model=Toy(), args=args, train_dataset=Stream(), callbacks=[pruning]).train()
    pruning = mgpp.PruningCallback(mgpp.MGPP(**RAMP), train_size=64)
    Trainer(model=Toy(), args=args, train_dataset=Stream(), callbacks=[pruning]).train()
    assert pruning.pruner.sparsity == 0.75


def test_an_unfinished_checkpoint_is_refused_by_name(tmp_path):
    trainer, _ = trainer_for("gmp", tmp_path, save_strategy="steps", save_steps=5)
    trainer.train()
    (tmp_path / "checkpoint-10" / STATE_FILE).unlink()
    with pytest.raises(FileNotFoundError, match="checkpoint-10"):
        trainer_for("gmp", tmp_path)[0].train(resume_from_checkpoint=str(tmp_path / "checkpoint-10"))


def test_a_checkpoint_moved_elsewhere_resumes_when_told_where(tmp_path):
    trainer, _ = trainer_for("gmp-hold", tmp_path / "a", save_strategy="steps", save_steps=10)
    trainer.train()
    shutil.copytree(tmp_path / "a" / "checkpoint-10", tmp_path / "moved")
    pruning = mgpp.PruningCallback(method_of("gmp-hold"), resume_from=tmp_path / "moved")
    again = InOrder(model=Toy(seed=5), args=arguments(tmp_path / "b"), train_dataset=rows(), callbacks=[pruning])
    again.train(resume_from_checkpoint=str(tmp_path / "moved"))
    assert_identical(weights_of(again.model), weights_of(trainer.model))


def test_a_pruners_state_survives_its_file(tmp_path):
    state = {"t": 7, "settings": {"sparsity": 0.5}, "memory": {"keep": {"a.weight": torch.tensor([True, False])}}}
    write_state(state, tmp_path)
    loaded = read_state(tmp_path)
    torch.testing.assert_close(loaded.pop("memory"), state.pop("memory"))
    assert loaded == state
    assert [path.name for path in tmp_path.iterdir()] == [STATE_FILE]


@every_method
def test_a_method_in_a_callbacks_place_is_refused_with_the_cure(case, tmp_path):
    with pytest.raises(AttributeError, match=r"is a method, not a callback: write callbacks=\[mgpp.PruningCallback\("):
        Trainer(model=Toy(), args=arguments(tmp_path), train_dataset=rows(), callbacks=[method_of(case)])


@pytest.mark.parametrize("no_method", ["recommended", mgpp.recommended, mgpp.MGPP])
def test_what_is_no_method_is_refused_with_the_cure(no_method):
    with pytest.raises(TypeError, match="is no method: give one with its settings"):
        mgpp.PruningCallback(no_method)
