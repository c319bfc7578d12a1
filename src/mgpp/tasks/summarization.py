"""Summaries by an encoder-decoder: learnt from references, scored on what the model writes by itself."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import (
    AutoModelForSeq2SeqLM,
    DataCollatorForSeq2Seq,
    EvalPrediction,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

from mgpp.tasks.columns import check_column, check_texts
from mgpp.tasks.generation import describe_generation, settle_generation
from mgpp.tasks.pretrained import Pretrained, find_pretrained
from mgpp.tasks.rouge import score_summaries
from mgpp.tasks.rows import find_evaluation, find_parts, scored_on
from mgpp.tasks.source import Source, describe_data
from mgpp.tasks.task import Generation, Task, TaskKind

if TYPE_CHECKING:
    from datasets import Dataset

_CNN_DAILYMAIL = ("article", "highlights")
_XSUM = ("document", "summary")
KNOWN_COLUMNS = (_CNN_DAILYMAIL, _XSUM, ("dialogue", "summary"), ("text", "summary"))


@dataclass(frozen=True)
class _Columns:
    document: str
    summary: str

    def __str__(self) -> str:
        return f"documents from {self.document}, summaries from {self.summary}"


def training_task(
    model: str,
    source: Source,
    *,
    seed: int,
    new_head: bool = False,
    known: tuple[tuple[str, str], ...] = KNOWN_COLUMNS,
) -> Task:
    """Documents and their summaries. A summariser has no head to replace: `new_head` changes nothing."""
    parts = find_parts(source)
    columns = _find_columns(parts.train, source, known)
    for where, rows in {"train": parts.train, **parts.evaluation}.items():
        _check_rows(rows, columns, where=where)
    parts = parts.hold_out(source, seed=seed)
    evaluation = next(iter(parts.evaluation.values()))
    return _Build(_find_writer(model, source), source, columns).task(parts.train, evaluation, note=parts.note)


def evaluation_task(model: str, source: Source, *, known: tuple[tuple[str, str], ...] = KNOWN_COLUMNS) -> Task:
    found = find_evaluation(source)
    (where, evaluation), *_ = found.items()
    columns = _find_columns(evaluation, source, known)
    _check_rows(evaluation, columns, where=where)
    return _Build(_find_writer(model, source), source, columns).task(None, evaluation, note=scored_on(found))


def _kind(about: str, *known: tuple[str, str]) -> TaskKind:
    return TaskKind(
        about=about,
        training=partial(training_task, known=known),
        evaluation=partial(evaluation_task, known=known),
        max_length=256,
    )


SUMMARIZATION = _kind("summaries of any documents", *KNOWN_COLUMNS)
XSUM = _kind("XSum: one sentence that sums up a news article", _XSUM)
CNN_DAILYMAIL = _kind("CNN/DailyMail: the highlights of a news article", _CNN_DAILYMAIL)


def _find_columns(rows: "Dataset", source: Source, known: tuple[tuple[str, str], ...]) -> _Columns:
    there = rows.column_names
    document, summary = next((pair for pair in known if set(pair) <= set(there)), (None, None))
    columns = _Columns(source.text or document or "", source.label or summary or "")
    if not (columns.document and columns.summary):
        raise ValueError(
            f"which columns hold the documents and their summaries? {describe_data(source.data)} has "
            f"{', '.join(there)}: name them (--text and --label)"
        )
    return columns


def _check_rows(rows: "Dataset", columns: _Columns, *, where: str) -> None:
    for column, option in ((columns.document, "--text"), (columns.summary, "--label")):
        check_column(rows, column, where=where, option=option)
        check_texts(rows, column, where=where, option=option)
    for row, summary in enumerate(rows[columns.summary]):
        if not summary.strip():
            raise ValueError(f"row {row} of {where} has an empty summary in {columns.summary!r}: drop the row")


def _find_writer(model: str, source: Source) -> Pretrained:
    writer = find_pretrained(model, trust_remote_code=source.trust_remote_code)
    config = writer.config
    if not config.is_encoder_decoder:
        raise ValueError(
            f"{model} is a {config.model_type}, which has no decoder beside an encoder: summaries need both, as "
            "facebook/bart-large or google/flan-t5-small have"
        )
    writer.check_kind(AutoModelForSeq2SeqLM, what="text to text")
    writer.check_length(source.max_length or 0)
    if source.beams < 1:
        raise ValueError(f"beams={source.beams}: it must be at least 1 (1 takes the likeliest word each time)")
    positions = _decoder_positions(config)
    if not 1 <= source.target_length <= (positions or source.target_length):
        limit = f", at most the {positions} positions of the model's decoder" if positions else ""
        raise ValueError(f"target_length={source.target_length}: it must be at least 1{limit}")
    if getattr(config, "decoder_start_token_id", None) is None:
        raise ValueError(f"the config of {model} has no decoder_start_token_id: a decoder must know how to begin")
    return writer


def _decoder_positions(config: PreTrainedConfig) -> int | None:
    """None where positions are relative (T5)."""
    config = getattr(config, "decoder", None) or config
    names = ("max_decoder_position_embeddings", "max_target_positions", "max_position_embeddings")
    return next((found for name in names if (found := getattr(config, name, None)) is not None), None)


@dataclass(frozen=True)
class _Build:
    writer: Pretrained
    source: Source
    columns: _Columns

    def task(self, train: "Dataset | None", evaluation: "Dataset", *, note: str) -> Task:
        source, tokenizer = self.source, self.writer.tokenizer
        references = evaluation[self.columns.summary][:]
        settled = settle_generation(self.writer, beams=source.beams, target_length=source.target_length)
        lengths = f"cut to {source.max_length} and {source.target_length} tokens"
        told = [f"{self.columns}, {lengths}; {describe_generation(settled)}"]
        if self.writer.config.model_type == "t5" and not source.source_prefix:
            told.append("T5 knows the task by its first words: --source-prefix 'summarize: ' puts them there")
        return Task(
            train=None if train is None else self._tokenised(train),
            evaluation=self._tokenised(evaluation),
            tokenizer=tokenizer,
            # Without the model: it makes its decoder's inputs from the labels by itself.
            collate=DataCollatorForSeq2Seq(tokenizer, label_pad_token_id=-100),
            auto_class=AutoModelForSeq2SeqLM,
            load_model=partial(self._load, settled),
            compute_metrics=self._scoring(references),
            metric="rougeLsum",
            generation=Generation(max_length=settled.max_length, beams=settled.num_beams),
            pipeline_tag="summarization",
            notes=(*told, note),
        )

    def _load(self, settled: GenerationConfig) -> PreTrainedModel:
        model = self.writer.load(AutoModelForSeq2SeqLM)
        model.generation_config = settled  # saved with it, so that it writes as it was scored
        return model

    def _tokenised(self, rows: "Dataset") -> "Dataset":
        tokenizer, columns, source = self.writer.tokenizer, self.columns, self.source
        prefix, lengths = source.source_prefix, (source.max_length, source.target_length)

        def features(batch: dict[str, list[Any]]) -> dict[str, Any]:
            documents = [prefix + document for document in batch[columns.document]]
            encoded = tokenizer(documents, truncation=True, max_length=lengths[0])
            labels = tokenizer(text_target=batch[columns.summary], truncation=True, max_length=lengths[1])
            return {**encoded, "labels": labels["input_ids"]}

        return rows.map(features, batched=True, remove_columns=rows.column_names, desc="tokenising")

    def _scoring(self, references: list[str]) -> Callable[[EvalPrediction], dict[str, float]]:
        tokenizer = self.writer.tokenizer

        def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
            # Several processes fill their last batch up with rows of the first.
            tokens = np.asarray(prediction.predictions)[: len(references)]
            tokens = np.where(tokens < 0, tokenizer.pad_token_id, tokens)
            summaries = tokenizer.batch_decode(tokens, skip_special_tokens=True)
            # The references as they are written, not as they were cut for learning.
            return score_summaries(summaries, references)

        return compute_metrics
