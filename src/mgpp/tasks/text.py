"""Text classification and regression, from one text or a pair: any rows of strings with a label."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transformers import DataCollatorWithPadding

from mgpp.tasks import metrics, rows
from mgpp.tasks.labels import LabelColumn, LabelSpace, check_fit, check_seen, label_space, read_labels
from mgpp.tasks.pretrained import Pretrained, find_pretrained, fit_head
from mgpp.tasks.task import Task

if TYPE_CHECKING:
    from datasets import Dataset

# The column names of the usual data sets. Pairs before a lone `sentence`: QNLI has one beside its question.
KNOWN_COLUMNS = (
    ("text", None),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("sentence", None),
)


@dataclass(frozen=True, kw_only=True)
class TextData:
    """Where the rows are and what their columns mean. What is None is found out, and told."""

    data: str
    text: str | None = None
    text_pair: str | None = None
    label: str = "label"
    eval_data: str | None = None
    eval_split: str | None = None
    holdout: float = 0.1
    max_length: int = 128


@dataclass(frozen=True)
class _Columns:
    text: str
    pair: str | None
    label: str

    def __str__(self) -> str:
        return f"text from {self.text if self.pair is None else f'{self.text} + {self.pair}'}, labels from {self.label}"


def training_task(model: str, source: TextData, *, seed: int, new_head: bool = False) -> Task:
    """Rows to train on and to be scored on, and a model with a head for their labels.

    A head that the model brings and that does not fit the labels is refused, unless `new_head` says to replace it.
    """
    splits = rows.load_splits(source.data)
    train = rows.choose_split(splits, "train", data=source.data)
    columns = _find_columns(train, source)
    labels = _checked(train, columns, where="train")
    space = label_space(labels)
    where, evaluation = _given_evaluation(splits, source)
    if evaluation is not None:
        scored = _checked(evaluation, columns, where=where)
        check_fit(space, scored, where=where, known="train")
        check_seen(labels, scored, where=where)
        note = f"scored on the {len(evaluation):,} rows of {where}"
    else:
        everything = len(train)
        train, evaluation = rows.hold_out(train, share=source.holdout, seed=seed)
        note = (
            f"no validation rows were given: {len(evaluation):,} of {everything:,} training rows are held out "
            f"({source.holdout:.0%}, seed {seed}) and scored on"
        )
    pretrained = find_pretrained(model)
    space = fit_head(pretrained, space, labels, new_head=new_head)
    return _task(pretrained, space, source, columns, train=train, evaluation=evaluation, note=note, new_head=new_head)


def evaluation_task(model: str, source: TextData) -> Task:
    """Rows to be scored on by a model that has its head already: `eval_split`, or validation, or all there are."""
    splits = rows.load_splits(source.data)
    where = source.eval_split or ("validation" if "validation" in splits else next(iter(splits)))
    if source.eval_split is None and where != "validation" and len(splits) > 1:
        raise ValueError(
            f"{source.data} has {', '.join(splits)} and no validation: say which to score on (--eval-split)"
        )
    evaluation = rows.choose_split(splits, where, data=source.data)
    columns = _find_columns(evaluation, source)
    labels = _checked(evaluation, columns, where=where)
    pretrained = find_pretrained(model)
    if pretrained.head is None:
        raise ValueError(f"{model} has no classification head, so it cannot be scored: fine-tune it first (mgpp prune)")
    check_fit(pretrained.head, labels, where=where, known=f"the head of {model}")
    note = f"scored on the {len(evaluation):,} rows of {where}"
    if where == "train":
        note += ", which the model may have learnt from"
    return _task(pretrained, pretrained.head, source, columns, train=None, evaluation=evaluation, note=note)


def _given_evaluation(splits: "dict[str, Dataset]", source: TextData) -> "tuple[str, Dataset | None]":
    if source.eval_data is not None:
        others = rows.load_splits(source.eval_data)
        name = source.eval_split or ("validation" if "validation" in others else next(iter(others)))
        return source.eval_data, rows.choose_split(others, name, data=source.eval_data)
    if source.eval_split is not None:
        return source.eval_split, rows.choose_split(splits, source.eval_split, data=source.data)
    return "validation", splits.get("validation")


def _find_columns(found: "Dataset", source: TextData) -> _Columns:
    there = found.column_names
    if source.text is not None:
        return _Columns(source.text, source.text_pair, source.label)
    if source.text_pair is not None:
        raise ValueError(f"text_pair={source.text_pair!r} without text: name the first column too (--text)")
    for text, pair in KNOWN_COLUMNS:
        if text in there and (pair is None or pair in there):
            return _Columns(text, pair, source.label)
    raise ValueError(f"which column holds the text? {source.data} has {', '.join(there)}: name it (--text)")


def _checked(part: "Dataset", columns: _Columns, *, where: str) -> LabelColumn:
    texts = [column for column in (columns.text, columns.pair) if column is not None]
    for column, option in [*((text, "--text, --text-pair") for text in texts), (columns.label, "--label")]:
        if column not in part.column_names:
            there = ", ".join(part.column_names)
            raise ValueError(f"{where} has no column {column!r}: it has {there}; name one of these ({option})")
    for column in texts:
        _check_text(part, column, where)
    return read_labels(part, columns.label, where=where)


def _check_text(part: "Dataset", column: str, where: str) -> None:
    for row, value in enumerate(part[column]):
        if value is None:
            raise ValueError(f"row {row} of {where} has no text in {column!r}: drop the row or fill it in")
        if not isinstance(value, str):
            kind = type(value).__name__
            raise ValueError(
                f"row {row} of {where}: {column}={value!r} is {kind}, not text; name another column (--text)"
            )


def _task(
    pretrained: Pretrained,
    space: LabelSpace,
    source: TextData,
    columns: _Columns,
    *,
    train: "Dataset | None",
    evaluation: "Dataset",
    note: str,
    new_head: bool = False,
) -> Task:
    pretrained.check_length(source.max_length)
    tokenizer = pretrained.tokenizer

    def features(batch: dict[str, list[Any]]) -> dict[str, Any]:
        second = batch[columns.pair] if columns.pair else None
        encoded = tokenizer(batch[columns.text], second, truncation=True, max_length=source.max_length)
        return {**encoded, "labels": space.encode(batch[columns.label])}

    def tokenised(part: "Dataset") -> "Dataset":
        return part.map(features, batched=True, remove_columns=part.column_names, desc="tokenising")

    return Task(
        train=None if train is None else tokenised(train),
        evaluation=tokenised(evaluation),
        tokenizer=tokenizer,
        collate=DataCollatorWithPadding(tokenizer),
        load_model=lambda: pretrained.load(space, new_head=new_head),
        compute_metrics=metrics.regression_metrics if space.is_regression else metrics.classification_metrics,
        metric="pearson" if space.is_regression else "accuracy",
        notes=(f"{columns} ({space})", note),
    )
