"""Where a task's rows are, and what is to be made of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict

Data = Union[str, "Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict"]

# As `eval_split`: score on a share of the training rows even where there are others. No split can have such a name.
HOLDOUT = "train:holdout"

# So begins what stands for an object of `datasets` where only text can stand: in a result, and in a run's folder.
OBJECT = "datasets:"


@dataclass(frozen=True, kw_only=True)
class Source:
    """The rows, what their columns mean, and the settings of every task. What is None is found out, and told.

    `data` is a hub name, a file, a folder, or an object of `datasets`. `text`, `text_pair` and `label` are columns: the
    question, its context and the answers to a task that answers; a document and its summary to one that summarises.
    `unlabelled` are rows with the same texts and no label, which a teacher answers.
    With `trust_remote_code` the Python code that a model brings with it is run; without, such a model is refused.
    """

    data: Data
    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    train_split: str | None = None
    eval_data: Data | None = None
    eval_split: str | None = None
    holdout: float = 0.1
    unlabelled: Data | None = None
    max_length: int | None = None
    trust_remote_code: bool = False

    # Question answering: windows that overlap, and how an answer is chosen among their spans.
    doc_stride: int = 128
    max_answer_length: int = 30
    n_best: int = 20

    # Summarisation.
    target_length: int = 128
    beams: int = 8
    source_prefix: str = ""

    # Language modelling. A stream is read as it is needed and has no length: `train_size` stands in for it.
    stream: bool = False
    train_size: int | None = None
    mlm_probability: float = 0.15

    def __post_init__(self) -> None:
        counts = ("max_length", "doc_stride", "max_answer_length", "n_best", "target_length", "beams", "train_size")
        for name in counts:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value}: it must be at least 1")
        for name, what in (("holdout", "the training rows"), ("mlm_probability", "the tokens")):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: it must be a share of {what}, in (0, 1)")


def describe_data(data: Data | None) -> str | None:
    """As it can be written down: a name as it is, an object by its splits, their rows and fingerprints."""
    if data is None or isinstance(data, str):
        return data
    splits = data if isinstance(data, Mapping) else {"train": data}
    return OBJECT + ", ".join(f"{name} ({_described(rows)})" for name, rows in splits.items())


def _described(rows: "Dataset | IterableDataset") -> str:
    try:
        count = f"{len(rows)} rows"
    except TypeError:
        return "a stream"
    return f"{count}, {rows._fingerprint}"
