"""The one shape that a run knows of any task."""

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor
from torch.utils.data import Sampler
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mgpp.tasks.source import Source

# A label that is not to be predicted.
IGNORED = -100


@dataclass(frozen=True, kw_only=True)
class Generation:
    """How the text is made that a task is scored on."""

    max_length: int
    beams: int = 1


@dataclass(frozen=True, kw_only=True)
class Task:
    """Features to learn from and to be scored on, and the model that fits them.

    `train` is None where a model is only evaluated; it may have no length, and then `train_size` says how many features
    there are, if that is known. `evaluation` is one set, or several by name, whose metrics then carry that name
    (matched_accuracy). `auto_class` is the transformers class that loads the model and its teacher. `metric` is the one
    number that sums a run up. `notes` tell a person what was decided for them: which columns, which rows are held out.
    `texts` are the columns that the model reads, where it makes a difference how many they are.

    Where nothing else is said metrics are computed from all logits and labels at the end. `preprocess_logits(logits,
    labels)` keeps less of every batch; with `batch_metrics` nothing is kept, and `compute_metrics(prediction,
    compute_result=last)` is called for every batch, with its loss in `prediction.losses`. With `generation` the
    predictions are generated tokens. `sampler(batch_size=, seed=)` gives the order of the training features where it is
    not simply shuffled. `unlabelled` is the share of these that have no label. The last of the `notes` says what is
    scored on.
    """

    train: Any
    evaluation: Sized | Mapping[str, Sized]
    tokenizer: PreTrainedTokenizerBase
    collate: Callable[[list[Any]], dict[str, Any]]
    auto_class: Any
    load_model: Callable[[], PreTrainedModel]
    compute_metrics: Callable[..., dict[str, float]]
    metric: str
    lower_is_better: bool = False
    train_size: int | None = None
    preprocess_logits: Callable[[Any, Any], Tensor | tuple[Tensor, ...]] | None = None
    batch_metrics: bool = False
    generation: Generation | None = None
    sampler: Callable[..., Sampler[int]] | None = None
    pipeline_tag: str = "text-classification"
    notes: tuple[str, ...] = ()
    unlabelled: float = 0.0
    texts: tuple[str, ...] = ()

    @property
    def eval_rows(self) -> int:
        sets = self.evaluation.values() if isinstance(self.evaluation, Mapping) else [self.evaluation]
        return sum(len(rows) for rows in sets)


class BuildTraining(Protocol):
    def __call__(self, model: str, source: Source, *, seed: int, new_head: bool = False) -> Task: ...


class BuildEvaluation(Protocol):
    def __call__(self, model: str, source: Source) -> Task: ...


@dataclass(frozen=True, kw_only=True)
class TaskKind:
    """An entry of the table of tasks: how a task is made from a model and its rows.

    `max_length` is what texts are cut to, or packed into, where nothing else is asked for. `takes_unlabelled` says
    whether a teacher may answer rows that have no label.
    """

    about: str
    training: BuildTraining
    evaluation: BuildEvaluation
    max_length: int = 128
    takes_unlabelled: bool = False
