"""The Trainer of a run, put together from what the run asks for: its task, its order of rows, its teacher."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, TrainerCallback
from transformers.integrations import TensorBoardCallback
from transformers.trainer_callback import PrinterCallback

from mgpp.distillation import DistillationTrainer
from mgpp.run.config import RunConfig
from mgpp.run.optimizers import ClassAndSettings
from mgpp.run.sampling import LengthGrouped
from mgpp.tasks import Task
from mgpp.tasks.generation import reads_in_place

MakeSampler = Callable[..., Sampler[int]]


class _Steady(DataLoader[Any]):
    """A loader whose processes stay from epoch to epoch, and which draws from the random state as one without does.

    torch draws a number whenever it starts a loader's processes. If they stay it draws once, and a run would come out
    differently with processes than without, and resumed differently than in one go.
    """

    def __iter__(self) -> Any:
        torch.empty((), dtype=torch.int64).random_()
        return super().__iter__()

    @classmethod
    def make(cls, loader: Any) -> None:
        base = getattr(loader, "base_dataloader", loader)
        if base.persistent_workers:
            base.__class__ = cls
            base.generator = torch.Generator()  # for the draw that torch makes, or does not


class _Loading(Trainer):
    """Before another Trainer in a class's bases, it loads by steady processes and tells how long each step waited.

    Not for the first: what it takes to start, or to find a stopped run's place again, is no step's. Resumed after the
    last step it loads nothing, where a Trainer would take one step more.
    """

    def __init__(self, *args: Any, on_wait: Callable[[float], None], **kwargs: Any) -> None:
        self._on_wait = on_wait
        self._began = False
        super().__init__(*args, **kwargs)

    def _get_dataloader(self, *args: Any, **kwargs: Any) -> Any:
        loader = super()._get_dataloader(*args, **kwargs)
        _Steady.make(loader)
        return loader

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return [], None
        asked = time.perf_counter()
        batches = super().get_batch_samples(*args, **kwargs)
        if self._began:
            self._on_wait(time.perf_counter() - asked)
        self._began = True
        return batches


class _OwnOrder(Trainer):
    """Before another Trainer in a class's bases, it changes that one's order of rows."""

    def __init__(self, *args: Any, sampler: MakeSampler, **kwargs: Any) -> None:
        self._sampler = sampler
        super().__init__(*args, **kwargs)

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        return self._sampler(batch_size=self.args.train_batch_size, seed=self.args.seed)


class _Writing(Seq2SeqTrainer):
    def prediction_step(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        # The Trainer's own autocast is on the model's forward, and `generate` calls the encoder by itself. One context
        # around a whole batch also casts every weight once for all the tokens that are written.
        with self.accelerator.autocast(), reads_in_place(self.model):
            return super().prediction_step(*args, **kwargs)


def make_trainer(
    task: Task,
    model: torch.nn.Module,
    args: Seq2SeqTrainingArguments,
    *,
    callbacks: Sequence[TrainerCallback],
    optimizer: ClassAndSettings | None = None,
    sampler: MakeSampler | None = None,
    teacher: torch.nn.Module | None = None,
    distillation: dict[str, Any] | None = None,
    on_wait: Callable[[float], None] | None = None,
    tensorboard: Path | None = None,
) -> Trainer:
    """`sampler` gives the order of rows where they are not simply shuffled; `teacher` is learned from, too.

    `optimizer` takes the place of the one that `args` name; weight decay comes with the groups that the Trainer makes.
    `on_wait` is told how many seconds a step waited for its batches. `tensorboard` is where that tracker writes.
    """
    args.batch_eval_metrics = task.batch_metrics
    args.include_for_metrics = ["loss"] if task.batch_metrics else []
    bases: list[type] = []
    more: dict[str, Any] = {}
    if on_wait is not None:
        bases.append(_Loading)
        more["on_wait"] = on_wait
    if sampler is not None:
        bases.append(_OwnOrder)
        more["sampler"] = sampler
    if teacher is not None:
        bases.append(DistillationTrainer)
        more |= {"teacher": teacher, **(distillation or {})}
    if task.generation is not None:
        bases.append(_Writing)
        args.predict_with_generate = True
        args.generation_max_length, args.generation_num_beams = task.generation.max_length, task.generation.beams
    kind: Any = type("RunTrainer", (*bases, *(() if bases else (Trainer,))), {})
    trainer = kind(
        model=model,
        args=args,
        train_dataset=task.train,
        eval_dataset=task.evaluation,
        data_collator=task.collate,
        compute_metrics=task.compute_metrics,
        preprocess_logits_for_metrics=task.preprocess_logits,
        processing_class=task.tokenizer,
        callbacks=list(callbacks),
        **more,
    )
    # Else the Trainer takes the loss for one that the model has divided by the rows of all accumulated batches. Most
    # classifiers have not, and their gradient would grow with --accumulate: past the clip, and the prior beside it.
    trainer.model_accepts_loss_kwargs = False
    trainer.optimizer_cls_and_kwargs = optimizer  # set here, for a Seq2SeqTrainer takes none when it is made
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, TensorBoardCallback) and callback.logging_dir is None:
            # Its own place would be among the checkpoints, which a finished run removes.
            callback.logging_dir = None if tensorboard is None else str(tensorboard)
    trainer.remove_callback(PrinterCallback)  # it prints to stdout, which belongs to the result
    return trainer


def order_of(config: RunConfig, task: Task) -> MakeSampler | None:
    if not config.group_by_length:
        return task.sampler

    def by_length(*, batch_size: int, seed: int) -> LengthGrouped:
        return LengthGrouped([len(ids) for ids in task.train["input_ids"]], batch_size=batch_size, seed=seed)

    return by_length
