"""A run laid out to the last number before anything is trained or written: what does not fit fails here."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.integrations import TensorBoardCallback, get_available_reporting_integrations
from transformers.trainer_callback import PrinterCallback

from mgpp import methods
from mgpp.distillation import DistillationTrainer
from mgpp.methods.times import Run
from mgpp.run.config import RunConfig
from mgpp.run.folder import TENSORBOARD_FOLDER
from mgpp.run.sampling import LengthGrouped
from mgpp.run.teacher import find_teacher
from mgpp.tasks import Task, training_task
from mgpp.tasks.pretrained import Pretrained


@dataclass(frozen=True)
class Plan:
    config: RunConfig
    task: Task
    args: TrainingArguments
    length: Run
    teacher: Pretrained | None = None

    @property
    def method(self) -> dict[str, Any]:
        """The method as it was written, and its times in steps."""
        method = self.config.method
        if method is None:
            return {"method": None, "schedule": None, "target_sparsity": 0.0}
        return {
            "method": methods.to_dict(method),
            "schedule": asdict(method.recipe(self.length).schedule),
            "target_sparsity": method.sparsity,
        }


def make_plan(config: RunConfig, folder: Path) -> Plan:
    """`folder` is where the Trainer will write; nothing is written yet."""
    args = _arguments(config, folder)
    task = training_task(config.model, config.source, seed=config.seed, new_head=config.new_head)
    assert task.train is not None
    length = _length(config, args, rows=len(task.train))
    args.warmup_steps = min(round(config.warm_up * length.total_steps), length.total_steps - 1)
    plan = Plan(config, task, args, length, find_teacher(config, task.tokenizer))
    _ = plan.method  # a schedule that does not fit the run raises
    return plan


def _arguments(config: RunConfig, folder: Path) -> TrainingArguments:
    on_cuda = torch.cuda.is_available() and config.device != "cpu"
    if config.device == "cuda" and not on_cuda:
        raise ValueError("device='cuda': torch sees no CUDA device here; use device='cpu' or 'auto'")
    if config.precision == "fp16" and not on_cuda:
        raise ValueError("precision='fp16' needs a CUDA device: use bf16 or fp32 here")
    falls = config.lr_end < 1
    try:
        return TrainingArguments(
            output_dir=str(folder),
            num_train_epochs=config.epochs,
            max_steps=config.max_steps or -1,
            per_device_train_batch_size=config.batch_size,
            per_device_eval_batch_size=config.eval_batch_size,
            gradient_accumulation_steps=config.accumulate,
            learning_rate=config.learning_rate,
            lr_scheduler_type="polynomial" if falls else "constant_with_warmup",
            lr_scheduler_kwargs={"lr_end": config.lr_end * config.learning_rate, "power": 1.0} if falls else {},
            max_grad_norm=config.max_grad_norm,
            weight_decay=config.weight_decay,
            optim="adamw_torch_fused" if on_cuda and config.optimizer == "adamw_torch" else config.optimizer,
            bf16=config.precision == "bf16",
            fp16=config.precision == "fp16",
            use_cpu=not on_cuda,
            seed=config.seed,
            data_seed=config.seed,
            dataloader_num_workers=config.workers,
            dataloader_pin_memory=on_cuda,
            eval_strategy="no" if config.eval_steps is None else "steps",
            eval_steps=config.eval_steps,
            logging_steps=config.logging_steps,
            logging_nan_inf_filter=False,
            save_steps=config.save_steps,
            save_total_limit=2,  # not 1: the older one is removed while the newer is not yet whole
            report_to=list(_trackers(config)),
            disable_tqdm=True,
        )
    except ValueError as error:
        raise ValueError(f"the Trainer refuses these settings: {error}") from None


def _trackers(config: RunConfig) -> tuple[str, ...]:
    """A Trainer would notice one that is not installed only when the run has begun."""
    ready = get_available_reporting_integrations() if config.report_to else []
    for name in config.report_to:
        if name not in ready:
            raise ValueError(
                f"report_to={name}: it is not installed, or not a tracker that transformers knows; ready to use here: "
                f"{', '.join(ready) or 'none'} (pip install tensorboard, wandb or mlflow)"
            )
    return config.report_to


def _length(config: RunConfig, args: TrainingArguments, *, rows: int) -> Run:
    """As the Trainer will count it."""
    batches = math.ceil(rows / (args.train_batch_size * args.world_size))
    per_epoch = math.ceil(batches / config.accumulate)
    total = config.max_steps or math.ceil(config.epochs * per_epoch)
    return Run(total_steps=total, steps_per_epoch=per_epoch, train_size=rows)


class _LengthGroupedTrainer(Trainer):
    """Before another Trainer in a class's bases, it changes that one's order of rows."""

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthGrouped:
        rows: Any = self.train_dataset if train_dataset is None else train_dataset
        lengths = [len(ids) for ids in rows["input_ids"]]
        return LengthGrouped(lengths, batch_size=self.args.train_batch_size, seed=self.args.seed)


class _LengthGroupedDistillation(_LengthGroupedTrainer, DistillationTrainer):
    pass


def make_trainer(
    plan: Plan,
    model: torch.nn.Module,
    callbacks: list[TrainerCallback],
    *,
    teacher: torch.nn.Module | None = None,
) -> Trainer:
    trainer = _trainer_of(plan.config, teacher)(
        model=model,
        args=plan.args,
        train_dataset=plan.task.train,
        eval_dataset=plan.task.evaluation,
        data_collator=plan.task.collate,
        compute_metrics=plan.task.compute_metrics,
        processing_class=plan.task.tokenizer,
        callbacks=callbacks,
    )
    # Else the Trainer takes the loss for one that the model has divided by the rows of all accumulated batches. Most
    # classifiers have not, and their gradient would grow with --accumulate: past the clip, and the prior beside it.
    trainer.model_accepts_loss_kwargs = False
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, TensorBoardCallback) and callback.logging_dir is None:
            # Its own place would be among the checkpoints, which a finished run removes.
            callback.logging_dir = str(Path(plan.config.output).expanduser() / TENSORBOARD_FOLDER)
    trainer.remove_callback(PrinterCallback)  # it prints to stdout, which belongs to the result
    return trainer


def _trainer_of(config: RunConfig, teacher: torch.nn.Module | None) -> Callable[..., Trainer]:
    if teacher is None:
        return _LengthGroupedTrainer if config.group_by_length else Trainer
    return partial(
        _LengthGroupedDistillation if config.group_by_length else DistillationTrainer,
        teacher=teacher,
        temperature=config.distil_temperature,
        weight=config.distil_weight,
        hidden_weight=config.distil_hidden,
    )
