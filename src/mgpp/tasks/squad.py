"""Extractive question answering as in SQuAD v1.1: the answer is a stretch of the context, and there always is one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor
from transformers import AutoModelForQuestionAnswering, EvalPrediction, PreTrainedModel, PreTrainedTokenizerBase

from mgpp.tasks.answers import score_answers
from mgpp.tasks.columns import check_column, check_texts
from mgpp.tasks.pretrained import Pretrained, find_pretrained
from mgpp.tasks.rows import find_evaluation, find_parts, scored_on
from mgpp.tasks.source import Source
from mgpp.tasks.spans import best_spans, choose_answer
from mgpp.tasks.task import Task, TaskKind
from mgpp.tasks.windows import answer_positions, check_windows, lost_text, make_windows

if TYPE_CHECKING:
    from datasets import Dataset

# A text and where in the context it begins.
Answer = tuple[str, int]


@dataclass(frozen=True)
class _Columns:
    question: str
    context: str
    answers: str


def training_task(model: str, source: Source, *, seed: int, new_head: bool = False) -> Task:
    """Windows to learn from and questions to be scored on. Any head fits that answers: `new_head` changes nothing."""
    parts = find_parts(source)
    columns = _columns(source)
    for where, rows in {"train": parts.train, **parts.evaluation}.items():
        _check_rows(rows, columns, where=where)
    parts = parts.hold_out(source, seed=seed)
    build = _Build(_find_reader(model, source), source, columns)
    (where, evaluation), *_ = parts.evaluation.items()
    return build.task(parts.train, evaluation, where=where, note=parts.note)


def evaluation_task(model: str, source: Source) -> Task:
    """Questions to be scored on by a model that has learnt to answer."""
    found = find_evaluation(source)
    columns = _columns(source)
    (where, evaluation), *_ = found.items()
    _check_rows(evaluation, columns, where=where)
    reader = _find_reader(model, source)
    if not reader.has_head_of(AutoModelForQuestionAnswering):
        raise ValueError(f"{model} has no head that answers, so it cannot be scored: fine-tune it first (mgpp prune)")
    return _Build(reader, source, columns).task(None, evaluation, where=where, note=scored_on(found))


SQUAD = TaskKind(
    about="SQuAD v1.1: find the answer to a question in a text",
    training=training_task,
    evaluation=evaluation_task,
    max_length=384,
)


def _columns(source: Source) -> _Columns:
    return _Columns(source.text or "question", source.text_pair or "context", source.label or "answers")


def _find_reader(model: str, source: Source) -> Pretrained:
    reader = find_pretrained(model, trust_remote_code=source.trust_remote_code)
    reader.check_kind(AutoModelForQuestionAnswering, what="question answering")
    if not reader.tokenizer.is_fast:
        raise ValueError(
            f"the tokenizer of {model} is not a fast one (tokenizer.json), and only these know a token's characters in "
            "the context: give a model with one"
        )
    return reader


def _check_rows(rows: "Dataset", columns: _Columns, *, where: str) -> None:
    for column, option in (
        (columns.question, "--text"),
        (columns.context, "--text-pair"),
        (columns.answers, "--label"),
    ):
        check_column(rows, column, where=where, option=option)
    check_texts(rows, columns.question, where=where, option="--text")
    check_texts(rows, columns.context, where=where, option="--text-pair")
    for row, (context, given) in enumerate(zip(rows[columns.context], rows[columns.answers], strict=True)):
        answers = read_answers(given, told=f"row {row} of {where}")
        if not answers:
            raise ValueError(
                f"row {row} of {where} has no answer in {columns.answers!r}, and in SQuAD v1.1 every question has one: "
                "drop the row"
            )
        for text, start in answers:
            _check_answer(text, start, context, told=f"row {row} of {where}")


def read_answers(given: Any, *, told: str) -> list[Answer]:
    """From {"text": [...], "answer_start": [...]}, as the hub has them, or [{"text": ..., "answer_start": ...}]."""
    try:
        if isinstance(given, dict):
            pairs = list(zip(given["text"], given["answer_start"], strict=True))
        else:
            pairs = [(one["text"], one["answer_start"]) for one in given or ()]
    except (KeyError, TypeError, ValueError):
        pairs = [(None, None)]
    if not all(isinstance(text, str) and isinstance(start, int) for text, start in pairs):
        raise ValueError(
            f"{told}: answers={given!r} is not {{'text': [...], 'answer_start': [...]}}: write them so, or name "
            "another column (--label)"
        )
    return pairs


def _check_answer(text: str, start: int, context: str, *, told: str) -> None:
    if not text.strip():
        raise ValueError(f"{told}: the answer {text!r} is blank: drop it or fill it in")
    there = context[start : start + len(text)] if start >= 0 else ""
    if there != text:
        cure = f"it is at {context.index(text)}" if text in context else "it is nowhere in it"
        raise ValueError(
            f"{told}: the answer {text!r} is not at character {start} of its context, where {there!r} is: {cure}; "
            "correct answer_start, or drop the row"
        )


@dataclass(frozen=True)
class _Build:
    reader: Pretrained
    source: Source
    columns: _Columns

    def task(self, train: "Dataset | None", evaluation: "Dataset", *, where: str, note: str) -> Task:
        source, tokenizer = self.source, self.reader.tokenizer
        self.reader.check_length(source.max_length or 0)
        for name, rows in (("train", train), (where, evaluation)):
            if rows is not None:
                questions = rows[self.columns.question]
                check_windows(
                    tokenizer, questions, max_length=source.max_length or 0, doc_stride=source.doc_stride, where=name
                )
        windows = self._windows(evaluation)
        learnt = None if train is None else self._windows(train).remove_columns(["row", "offsets"])
        told = [f"{len(windows):,} to answer {len(evaluation):,} questions from"]
        if train is not None and learnt is not None:
            told.insert(0, f"{len(learnt):,} to learn {len(train):,} from")
        return Task(
            train=learnt,
            evaluation=windows,
            tokenizer=tokenizer,
            collate=partial(_collate, tokenizer),
            auto_class=AutoModelForQuestionAnswering,
            load_model=self._load,
            compute_metrics=self._scoring(evaluation, windows),
            metric="f1",
            preprocess_logits=_keep_positions,
            pipeline_tag="question-answering",
            notes=(
                f"windows of {source.max_length} tokens that share {source.doc_stride}: {', '.join(told)}",
                *filter(None, [lost_text()]),
                note,
            ),
        )

    def _load(self) -> PreTrainedModel:
        # The head's width. A model that was fine-tuned for three classes would bring its 3.
        self.reader.config.num_labels = 2
        return self.reader.load(AutoModelForQuestionAnswering)

    def _windows(self, rows: "Dataset") -> "Dataset":
        # Only plain values in the closure: `datasets` takes their hash for the name of the cached outcome.
        tokenizer, columns = self.reader.tokenizer, self.columns
        lengths = {"max_length": self.source.max_length or 0, "doc_stride": self.source.doc_stride}

        def features(batch: dict[str, list[Any]], numbers: list[int]) -> dict[str, Any]:
            contexts = batch[columns.context]
            answers = [read_answers(given, told="")[0] for given in batch[columns.answers]]
            spans = [(start, start + len(text)) for text, start in answers]
            windows = make_windows(tokenizer, batch[columns.question], contexts, **lengths)
            positions = answer_positions(windows, contexts, spans, cls_token_id=tokenizer.cls_token_id)
            return {**windows, **positions, "row": [numbers[row] for row in windows["row"]]}

        return rows.map(features, batched=True, with_indices=True, remove_columns=rows.column_names, desc="tokenising")

    def _scoring(self, rows: "Dataset", windows: "Dataset") -> Callable[[EvalPrediction], dict[str, float]]:
        limits = {"n_best": self.source.n_best, "max_answer_length": self.source.max_answer_length}
        columns = self.columns

        def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
            logits: Any = prediction.predictions
            starts, ends = logits
            found: list[list[Any]] = [[] for _ in range(len(rows))]
            for number, (row, offsets) in enumerate(zip(windows["row"], windows["offsets"], strict=True)):
                found[row] += best_spans(starts[number], ends[number], offsets, **limits)
            answers = [choose_answer(*pair) for pair in zip(rows[columns.context], found, strict=True)]
            truths = [[text for text, _ in read_answers(given, told="")] for given in rows[columns.answers]]
            return score_answers(answers, truths)

        return compute_metrics


def _collate(tokenizer: PreTrainedTokenizerBase, features: Sequence[dict[str, Any]]) -> dict[str, Any]:
    # On the right whatever the tokenizer's habit: on the left, padding would move the answers.
    known = {*tokenizer.model_input_names, "start_positions", "end_positions"}
    inputs = [{name: value for name, value in feature.items() if name in known} for feature in features]
    return dict(tokenizer.pad(inputs, padding=True, padding_side="right", return_tensors="pt"))


def _keep_positions(logits: tuple[Tensor, ...], labels: Any) -> tuple[Tensor, ...]:
    # Encoder-decoder models return hidden states beside them.
    return logits[:2]
