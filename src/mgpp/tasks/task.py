"""The one shape that a run knows of any task."""

from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import Any

from transformers import EvalPrediction, PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, kw_only=True)
class Task:
    """Features to learn from and to be scored on, and the model that fits them.

    `train` is None where a model is only evaluated. `metric` is the one of `compute_metrics` that sums a run up.
    `notes` tell a person what was decided for them: which columns, which rows are held out.
    """

    train: Sized | None
    evaluation: Sized
    tokenizer: PreTrainedTokenizerBase
    collate: Callable[[list[Any]], dict[str, Any]]
    load_model: Callable[[], PreTrainedModel]
    compute_metrics: Callable[[EvalPrediction], dict[str, float]]
    metric: str
    notes: tuple[str, ...] = ()
