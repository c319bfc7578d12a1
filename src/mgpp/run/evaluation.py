"""Scores of a model on rows, and its sparsity as counted."""

import math
import tempfile
from typing import Any

from transformers import Seq2SeqTrainingArguments, Trainer

from mgpp.run.config import check_machine
from mgpp.run.reasons import NoMemoryToScore, is_out_of_memory
from mgpp.run.remembered import check_as_learnt, learnt_from
from mgpp.run.result import provenance, sparsity_of
from mgpp.run.trainers import make_trainer
from mgpp.targets import find_targets
from mgpp.tasks import Source, describe_data, evaluation_task

_TIMINGS = ("runtime", "_per_second", "_time")


def evaluate(
    model: str,
    source: Source,
    *,
    task: str = "text",
    batch_size: int = 64,
    device: str = "auto",
    precision: str = "fp32",
    callbacks: list[Any] | None = None,
    include: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The metrics of a fine-tuned model on `source`, and how many of its prunable weights are zero."""
    check_machine(precision, device)
    if batch_size < 1:
        raise ValueError(f"eval_batch_size={batch_size}: it must be at least 1")
    learnt = ["the model's run learnt from this very file"] if learnt_from(model, source.data) else []
    made = evaluation_task(task, model, source)
    if source.text is None:
        check_as_learnt(model, made.texts, describe_data(source.data))
    network = made.load_model()
    targets = find_targets(network, include=include, exclude=exclude)
    with tempfile.TemporaryDirectory() as folder:  # a Trainer makes its output folder even if it never writes
        args = Seq2SeqTrainingArguments(
            output_dir=folder,
            per_device_eval_batch_size=batch_size,
            report_to="none",
            disable_tqdm=True,
            use_cpu=device == "cpu",
            bf16=precision == "bf16",
            fp16=precision == "fp16",
        )
        metrics = scores(make_trainer(made, network, args, callbacks=callbacks or []))
    return {
        "model": model,
        "data": describe_data(source.data),
        "task": task,
        "metric": made.metric,
        "metrics": metrics,
        "rows": made.eval_rows,
        "notes": [*made.notes, *learnt],
        **sparsity_of(targets),
        **provenance(),
    }


def scores(trainer: Trainer) -> dict[str, float]:
    """Loss and metrics on the evaluation rows, without the Trainer's prefix and timings."""
    try:
        metrics = trainer.evaluate()
    except Exception as error:
        if is_out_of_memory(error):
            raise NoMemoryToScore(str(error)) from error
        raise
    # PruningCallback adds its sparsity and cut to what is logged, without the prefix.
    found = {name.removeprefix("eval_"): value for name, value in metrics.items() if name.startswith("eval_")}
    told = {name: value for name, value in found.items() if not name.endswith(_TIMINGS)}
    for name, value in told.items():
        if not math.isfinite(value):
            raise FloatingPointError(
                f"the {name} on the evaluation rows is {value}: look at the model's weights, at the rows and their "
                "labels, or take another --precision"
            )
    return told
