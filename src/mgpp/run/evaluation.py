"""Scores of a model on rows, and its sparsity as counted."""

import tempfile
from typing import Any

from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from mgpp.run.result import provenance, sparsity_of
from mgpp.targets import find_targets
from mgpp.tasks import TextData, evaluation_task

_TIMINGS = ("runtime", "_per_second", "_time")


def evaluate(
    model: str,
    source: TextData,
    *,
    batch_size: int = 64,
    device: str = "auto",
    callbacks: list[Any] | None = None,
    include: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The metrics of a fine-tuned model on `source`, and how many of its prunable weights are zero."""
    task = evaluation_task(model, source)
    network = task.load_model()
    targets = find_targets(network, include=include, exclude=exclude)
    with tempfile.TemporaryDirectory() as folder:  # a Trainer makes its output folder even if it never writes
        trainer = Trainer(
            model=network,
            args=TrainingArguments(
                output_dir=folder,
                per_device_eval_batch_size=batch_size,
                report_to="none",
                disable_tqdm=True,
                use_cpu=device == "cpu",
            ),
            eval_dataset=task.evaluation,
            data_collator=task.collate,
            compute_metrics=task.compute_metrics,
            processing_class=task.tokenizer,
            callbacks=callbacks,
        )
        trainer.remove_callback(PrinterCallback)
        metrics = scores(trainer)
    return {
        "model": model,
        "data": source.data,
        "metric": task.metric,
        "metrics": metrics,
        "rows": len(task.evaluation),
        "notes": list(task.notes),
        **sparsity_of(targets),
        **provenance(),
    }


def scores(trainer: Trainer) -> dict[str, float]:
    """Loss and metrics on the evaluation rows, without the Trainer's prefix and timings."""
    # PruningCallback adds its sparsity and cut to what is logged, without the prefix.
    found = {
        name.removeprefix("eval_"): value for name, value in trainer.evaluate().items() if name.startswith("eval_")
    }
    return {name: value for name, value in found.items() if not name.endswith(_TIMINGS)}
