"""Pruning inside a Hugging Face Trainer: one callback, which only translates."""

import logging
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from mgpp import records
from mgpp.finite import Skips
from mgpp.methods import Method, to_dict
from mgpp.methods.recipe import Gradients
from mgpp.preparation import prepare
from mgpp.pruner import Pruner
from mgpp.renamed import restore_renamed
from mgpp.sampler import GradientSampler
from mgpp.trackers import Trackers, numbers_of

logger = logging.getLogger(__name__)

RECORDS_FILE = "records.jsonl"


class PruningCallback(TrainerCallback):
    """Prunes the Trainer's model with `method`:  Trainer(..., callbacks=[PruningCallback(MGPP(sparsity=0.9))]).

    Writes `records.jsonl` into the output folder, and its own state into every checkpoint, from which
    `trainer.train(resume_from_checkpoint=True)` goes on exactly. What `report_to` names is told the sparsity, the cut,
    the prior's warm-up, what came back and every layer's sparsity.

    `train_size` is only needed where the data set has no length; `resume_from` only where the checkpoint lies outside
    the output folder. Gradients that a method samples come from the training set, unless `gradients` gives others.
    `looks` as in `Pruner`.
    """

    def __init__(
        self,
        method: Method,
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        train_size: int | None = None,
        resume_from: str | Path | None = None,
        gradients: Gradients | None = None,
        looks: int = 100,
    ) -> None:
        if not isinstance(method, Method):
            raise TypeError(
                f"method={method!r} is no method: give one with its settings, such as mgpp.recommended(sparsity=0.9)"
            )
        self.method = method
        self.include = include
        self.exclude = exclude
        self.train_size = train_size
        self.resume_from = resume_from
        self.gradients = gradients
        self.looks = looks
        self.pruner: Pruner | None = None
        self._records: Path | None = None
        self._trackers: Trackers | None = None
        self._skips = Skips()

    def on_init_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        prepare(kwargs["model"], self.method, include=self.include, exclude=self.exclude)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if args.load_best_model_at_end:
            raise ValueError(
                "load_best_model_at_end=True may bring back a checkpoint from before the ramp's end, less sparse than "
                "asked: set it to False"
            )
        if self.pruner is not None:
            self.pruner.detach()
        if state.global_step > 0:
            restore_renamed(kwargs["model"], self._checkpoint(args, state))
        loader = kwargs["train_dataloader"]
        self.pruner = Pruner(
            kwargs["model"],
            self.method,
            total_steps=state.max_steps,
            train_size=self.train_size if self.train_size is not None else _length(getattr(loader, "dataset", None)),
            steps_per_epoch=_steps_per_epoch(loader, args),
            include=self.include,
            exclude=self.exclude,
            gradients=self.gradients if self.gradients is not None else _sampler(kwargs["model"], loader, args),
            on_record=self._write,
            looks=self.looks,
        )
        self.pruner.attach(kwargs["optimizer"])
        if state.global_step > 0:
            self.pruner.load(self._checkpoint(args, state))
        if state.is_world_process_zero:
            self._open_records(_folder(args), state)
        self._trackers = Trackers()
        self._skips = Skips()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if self.pruner is None or logs is None:
            return
        self.pruner.settle()
        told = {key: value for key, value in logs.items() if is_reproducible(key, value)}
        if told:
            self._write({"event": "log", "step": state.global_step, **told})
        if self._trackers is not None and ("loss" in logs or "train_loss" in logs):
            self._trackers.tell(numbers_of(self.pruner), args, state, control, **kwargs)
        if self.pruner.last_record is not None:
            logs["sparsity"] = self.pruner.last_record["sparsity"]
            logs["cut"] = self.pruner.last_record["cut"]

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.pruner is None:
            return
        self._skips.count(self.pruner.t)
        if control.should_save:  # so that the last good one stands
            self.pruner.require_finite()

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.pruner is None:
            return
        self.pruner.require_same_zeros()  # before the file without which a checkpoint does not count
        # Written last, and in one move: a checkpoint that has this file is whole.
        if self.pruner.is_sharded or state.is_world_process_zero:
            self.pruner.save(_folder(args) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}")

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.pruner is None:
            return
        if state.global_step >= state.max_steps:
            self.pruner.finish()
            self.pruner.require_same_zeros()
        elif sum(self.pruner.zeros.values()) < self.pruner.asked_zeros:
            logger.warning(
                "training stopped at step %d of %d: the model is %.4f sparse, not %.4f",
                state.global_step,
                state.max_steps,
                self.pruner.sparsity,
                self.method.sparsity,
            )
        self.pruner.detach()

    def _open_records(self, folder: Path, state: TrainerState) -> None:
        assert self.pruner is not None
        folder.mkdir(parents=True, exist_ok=True)
        self._records = folder / RECORDS_FILE
        if state.global_step > 0:
            records.rewind(self._records, state.global_step)
            return
        self._records.unlink(missing_ok=True)
        schedule = asdict(self.pruner.schedule)
        logger.info("pruning %s weights: %s", f"{self.pruner.num_weights:,}", schedule)
        self._write(
            {
                "event": "start",
                "step": 0,
                "method": to_dict(self.method),
                "schedule": schedule,
                "train_size": self.pruner.run.train_size,
                "weights": self.pruner.sizes,
                **self._sample(),
            }
        )

    def _sample(self) -> dict[str, int]:
        assert self.pruner is not None
        return {} if self.pruner.survey is None else {"sample": self.pruner.survey.sample_size}

    def _write(self, record: dict[str, Any]) -> None:
        if self._records is not None:
            records.append(self._records, record)

    def _checkpoint(self, args: TrainingArguments, state: TrainerState) -> Path:
        if self.resume_from is not None:
            return Path(self.resume_from)
        return _folder(args) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"


def _folder(args: TrainingArguments) -> Path:
    return Path(str(args.output_dir))


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except TypeError:  # a stream
        return None


def _sampler(model: nn.Module, loader: Any, args: TrainingArguments) -> GradientSampler | None:
    dataset = getattr(loader, "dataset", None)
    if not (hasattr(dataset, "__getitem__") and _length(dataset)):
        return None
    seed = args.data_seed if args.data_seed is not None else args.seed
    return GradientSampler(model, dataset, collate=loader.collate_fn, seed=seed)


def _steps_per_epoch(loader: Any, args: TrainingArguments) -> int | None:
    batches = _length(loader)
    return None if batches is None else max(1, math.ceil(batches / args.gradient_accumulation_steps))


def is_reproducible(key: str, value: Any) -> bool:
    """Losses and metrics, not timings: a record must come out the same when the run is repeated."""
    timed = key.endswith(("_runtime", "_per_second", "_time")) or key in {"epoch", "total_flos", "train_loss"}
    return not timed and isinstance(value, int | float) and math.isfinite(value)
