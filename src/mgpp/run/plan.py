"""A run laid out to the last number before anything is trained or written: what does not fit fails here."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import Seq2SeqTrainingArguments
from transformers.integrations import get_available_reporting_integrations

from mgpp import methods
from mgpp.methods.adam import require_betas
from mgpp.methods.times import Run
from mgpp.run.config import RunConfig
from mgpp.run.optimizers import look_at_optimizer, name_for_trainer
from mgpp.run.teacher import find_teacher
from mgpp.tasks import Task, describe_data, training_task
from mgpp.tasks.pretrained import Pretrained

# Batches that each process of the loader has ready.
_AHEAD = 4


@dataclass(frozen=True)
class Plan:
    config: RunConfig
    task: Task
    args: Seq2SeqTrainingArguments
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

    @property
    def scores_before(self) -> bool:
        asked = self.config.score_before
        return self.task.generation is None if asked is None else asked


def make_plan(config: RunConfig, folder: Path, *, has_teacher: bool = True) -> Plan:
    """`folder` is where the Trainer will write; nothing is written yet. `has_teacher`: it is there to be looked at."""
    args = _arguments(config, folder)
    optimizer = look_at_optimizer(config.optimizer, args)
    task = training_task(config.task, config.model, config.source, seed=config.seed, new_head=config.new_head)
    is_stream = not hasattr(task.train, "__len__")
    if config.group_by_length and (task.sampler is not None or is_stream):
        raise ValueError("these rows are all of one length: leave --group-by-length out")
    if is_stream:
        # It reads ahead by itself; in several processes each would read all of it.
        args.dataloader_num_workers, args.dataloader_persistent_workers, args.dataloader_prefetch_factor = (
            0,
            False,
            None,
        )
    length = _length(config, args, task)
    args.max_steps = length.total_steps
    args.warmup_steps = min(round(config.warm_up * length.total_steps), length.total_steps - 1)
    plan = Plan(config, task, args, length, find_teacher(config, task) if has_teacher else None)
    _ = plan.method  # a schedule that does not fit the run raises
    if optimizer is not None and config.method is not None:
        require_betas(config.method.recipe(length), optimizer)
    if config.method is not None and config.method.recipe(length).samples_gradients:
        if is_stream:
            raise ValueError("this method samples rows by their number, and a stream has none: leave --stream out")
        if task.unlabelled:
            raise ValueError(
                f"this method samples rows with their labels, and some of {describe_data(config.unlabelled)} would be "
                "among them: leave --unlabelled out, or choose another method"
            )
    return plan


def _arguments(config: RunConfig, folder: Path) -> Seq2SeqTrainingArguments:
    on_cuda = torch.cuda.is_available() and config.device != "cpu"
    if config.device == "cuda" and not on_cuda:
        raise ValueError("device='cuda': torch sees no CUDA device here; use device='cpu' or 'auto'")
    if config.precision == "fp16" and not on_cuda:
        raise ValueError("precision='fp16' needs a CUDA device: use bf16 or fp32 here")
    optimizer = name_for_trainer(config.optimizer, on_cuda=on_cuda)
    falls = config.lr_end < 1
    try:
        return Seq2SeqTrainingArguments(
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
            optim=optimizer,
            bf16=config.precision == "bf16",
            fp16=config.precision == "fp16",
            use_cpu=not on_cuda,
            seed=config.seed,
            data_seed=config.seed,
            dataloader_num_workers=config.workers,
            dataloader_persistent_workers=config.workers > 0,
            dataloader_prefetch_factor=_AHEAD if config.workers else None,
            dataloader_pin_memory=on_cuda,
            # Otherwise every batch waits until the device has done all that it was given before.
            accelerator_config={"non_blocking": on_cuda},
            eval_strategy="no" if config.eval_steps is None else "steps",
            eval_steps=config.eval_steps,
            logging_steps=config.logging_steps,
            logging_nan_inf_filter=False,
            save_steps=config.save_steps,
            save_total_limit=None,  # Checkpoints keeps two; the Trainer would remove one before the next is whole
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


def _length(config: RunConfig, args: Seq2SeqTrainingArguments, task: Task) -> Run:
    """A stream has no epochs but those that `train_size` makes."""
    batch = args.train_batch_size * args.world_size
    rows = len(task.train) if hasattr(task.train, "__len__") else None
    size = task.train_size or rows
    if size is None:
        if config.max_steps is None:
            raise ValueError("a stream has no end: give --max-steps, or --train-size and --epochs")
        size = config.max_steps * config.accumulate * batch
    if rows is not None and rows < batch:
        raise ValueError(f"{rows} training rows do not fill one batch of {batch}: lower --batch-size, or give more")
    length = config.length(rows or size, devices=batch // config.batch_size)
    return replace(length, steps_per_epoch=None if rows is None else length.steps_per_epoch, train_size=size)
