"""Text classification and regression, from one text or a pair: any rows of strings with a label."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding, EvalPrediction

from mgpp.tasks import metrics
from mgpp.tasks.columns import check_column, check_texts
from mgpp.tasks.extra import require
from mgpp.tasks.labels import LabelColumn, LabelSpace, check_fit, check_seen, label_space, read_labels
from mgpp.tasks.pretrained import Pretrained, find_pretrained, fit_head
from mgpp.tasks.rows import find_evaluation, find_parts, find_unlabelled, scored_on
from mgpp.tasks.source import Data, Source, describe_data
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
class Form:
    """What a benchmark's own task knows of its rows; by default nothing, and it is found out from the rows.

    `classes` is how many there are, 0 for regression. `metrics` are the official ones; the first sums a run up.
    `evaluation` are the splits to score on where there are several, each with the short name that its metrics carry.
    """

    columns: tuple[tuple[str, str | None], ...] = KNOWN_COLUMNS
    classes: int | None = None
    metrics: tuple[str, ...] = ()
    evaluation: Mapping[str, str] = field(default_factory=dict)

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.evaluation) or ("validation",)

    def check(self, space: LabelSpace, *, known: str) -> None:
        if self.classes is not None and self.classes != (0 if space.is_regression else space.num_labels):
            asked = f"{self.classes} classes" if self.classes else "one number"
            raise ValueError(f"this task is about {asked} and {known} about {space}: give what fits, or --task text")


ANY = Form()


@dataclass(frozen=True)
class _Columns:
    text: str
    pair: str | None
    label: str

    @property
    def texts(self) -> list[str]:
        return [column for column in (self.text, self.pair) if column is not None]

    def __str__(self) -> str:
        return f"text from {' + '.join(self.texts)}, labels from {self.label}"


def training_task(model: str, source: Source, *, seed: int, new_head: bool = False, form: Form = ANY) -> Task:
    """Rows to train on and to be scored on, and a model with a head for their labels.

    A head that the model brings and that does not fit the labels is refused, unless `new_head` says to replace it.
    """
    parts = find_parts(source, prefer=form.splits)
    columns = _find_columns(parts.train, source, form)
    labels = _checked(parts.train, columns, where="train")
    space = label_space(labels)
    form.check(space, known="the data")
    for where, rows in parts.evaluation.items():
        scored = _checked(rows, columns, where=where)
        check_fit(space, scored, where=where, known="train")
        check_seen(labels, scored, where=where)
    parts = parts.hold_out(source, seed=seed)
    pretrained = find_pretrained(model, trust_remote_code=source.trust_remote_code)
    space = fit_head(pretrained, space, labels, new_head=new_head)
    build = _Build(pretrained, space, source, columns, form)
    task = build.task(parts.train, parts.evaluation, note=parts.note, new_head=new_head)
    return task if source.unlabelled is None else build.with_unlabelled(task, source.unlabelled)


def evaluation_task(model: str, source: Source, *, form: Form = ANY) -> Task:
    """Rows to be scored on by a model that has its head already: `eval_split`, or validation, or all there are."""
    evaluation = find_evaluation(source, prefer=form.splits)
    columns = _find_columns(next(iter(evaluation.values())), source, form)
    labels = {where: _checked(rows, columns, where=where) for where, rows in evaluation.items()}
    pretrained = find_pretrained(model, trust_remote_code=source.trust_remote_code)
    if pretrained.labels is None:
        raise ValueError(f"{model} has no classification head, so it cannot be scored: fine-tune it first (mgpp prune)")
    form.check(pretrained.labels, known=f"the head of {model}")
    for where, column in labels.items():
        check_fit(pretrained.labels, column, where=where, known=f"the head of {model}")
    build = _Build(pretrained, pretrained.labels, source, columns, form)
    return build.task(None, evaluation, note=scored_on(evaluation))


def _find_columns(found: "Dataset", source: Source, form: Form) -> _Columns:
    there, label = found.column_names, source.label or "label"
    if source.text is not None:
        return _Columns(source.text, source.text_pair, label)
    if source.text_pair is not None:
        raise ValueError(f"text_pair={source.text_pair!r} without text: name the first column too (--text)")
    for text, pair in form.columns:
        if text in there and (pair is None or pair in there):
            return _Columns(text, pair, label)
    data = f"{describe_data(source.data)} has {', '.join(there)}"
    if form is ANY:
        raise ValueError(f"which column holds the text? {data}: name it (--text)")
    reads = " or ".join(" and ".join(filter(None, columns)) for columns in form.columns)
    raise ValueError(
        f"this task reads {reads}, and {data}: name what it shall read (--text, --text-pair), or --task text"
    )


def _checked(part: "Dataset", columns: _Columns, *, where: str) -> LabelColumn:
    _check_texts(part, columns, where=where)
    check_column(part, columns.label, where=where, option="--label; text without labels is for --task clm or mlm")
    if columns.label in columns.texts:
        raise ValueError(f"{columns.label!r} cannot be text and label at once: name two columns (--text, --label)")
    return read_labels(part, columns.label, where=where)


def _check_texts(part: "Dataset", columns: _Columns, *, where: str) -> None:
    for column in columns.texts:
        check_column(part, column, where=where, option="--text, --text-pair")
    for column in columns.texts:
        check_texts(part, column, where=where)


def _some(
    prediction: EvalPrediction, *, names: Sequence[str], of: Callable[[EvalPrediction], dict[str, float]]
) -> dict[str, float]:
    found = of(prediction)
    return {name: found[name] for name in names}


@dataclass(frozen=True)
class _Build:
    pretrained: Pretrained
    space: LabelSpace
    source: Source
    columns: _Columns
    form: Form

    def task(
        self, train: "Dataset | None", evaluation: "Mapping[str, Dataset]", *, note: str, new_head: bool = False
    ) -> Task:
        self.pretrained.check_length(self.source.max_length or 0)
        score, metric = self._scoring()
        sets = {where: self._tokenised(rows) for where, rows in evaluation.items()}
        names = self.form.evaluation
        # By its short name where the benchmark has several, even if only one of them is there.
        several = {names[where]: rows for where, rows in sets.items()} if set(sets) <= set(names) else {}
        return Task(
            train=None if train is None else self._tokenised(train),
            evaluation=several or next(iter(sets.values())),
            tokenizer=self.pretrained.tokenizer,
            collate=DataCollatorWithPadding(self.pretrained.tokenizer),
            auto_class=AutoModelForSequenceClassification,
            load_model=lambda: self.pretrained.load_classifier(self.space, new_head=new_head),
            compute_metrics=score,
            metric=f"{next(iter(several))}_{metric}" if several else metric,
            notes=(f"{self.columns} ({self.space})", note),
            texts=tuple(self.columns.texts),
        )

    def with_unlabelled(self, task: Task, data: Data) -> Task:
        """The task with these rows after its own, to train on."""
        rows, where = find_unlabelled(data), str(describe_data(data))
        _check_texts(rows, self.columns, where=where)
        together = require("datasets").concatenate_datasets([task.train, self._tokenised(rows, has_labels=False)])
        note = f"{len(rows):,} more rows without labels from {where}, which the teacher alone answers"
        *others, scored = task.notes
        return replace(task, train=together, notes=(*others, note, scored), unlabelled=len(rows) / len(together))

    def _scoring(self) -> tuple[Callable[[EvalPrediction], dict[str, float]], str]:
        everything = metrics.regression_metrics if self.space.is_regression else metrics.classification_metrics
        official = self.form.metrics
        if not official:
            return everything, "pearson" if self.space.is_regression else "accuracy"
        return partial(_some, names=official, of=everything), official[0]

    def _tokenised(self, part: "Dataset", *, has_labels: bool = True) -> "Dataset":
        tokenizer, columns, space, length = self.pretrained.tokenizer, self.columns, self.space, self.source.max_length
        # Under other names, for a feature would else take the type of a column that is called like it.
        own = {name: f"row's {name}" for name in [*columns.texts, *([columns.label] if has_labels else [])]}
        rows = part.select_columns(list(own)).rename_columns(own)

        def features(batch: dict[str, list[Any]]) -> dict[str, Any]:
            second = batch[own[columns.pair]] if columns.pair else None
            encoded = tokenizer(batch[own[columns.text]], second, truncation=True, max_length=length)
            missing = [space.missing] * len(encoded["input_ids"])
            return {**encoded, "labels": space.encode(batch[own[columns.label]]) if has_labels else missing}

        return rows.map(features, batched=True, remove_columns=rows.column_names, desc="tokenising")
