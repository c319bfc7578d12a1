"""Masked and causal language modelling on raw text: a corpus packed into blocks, scored by perplexity."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from mgpp.tasks.blocks import Blocks, EveryTime, Form, Stream, stack
from mgpp.tasks.columns import check_column, check_texts
from mgpp.tasks.extra import require
from mgpp.tasks.masking import causal, masked
from mgpp.tasks.packing import DOCUMENTS, Packing, for_causal, for_masked, pack_rows
from mgpp.tasks.perplexity import Perplexity, nothing
from mgpp.tasks.pretrained import Pretrained, find_pretrained
from mgpp.tasks.rows import find_evaluation, find_parts, first_rows, is_stream, scored_on
from mgpp.tasks.source import Source, describe_data
from mgpp.tasks.task import Task, TaskKind

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

_COLUMNS = ("text", "content", "document")
_LOOKED_AT = 100
# Every run is scored on the same masks, whatever its own seed.
_SCORING_SEED = 0


@dataclass(frozen=True, kw_only=True)
class Language:
    """What sets the two kinds apart. `shift` is 1 where a position predicts the label of the next."""

    name: str
    auto_class: Any
    pipeline_tag: str
    packing: Callable[..., Packing]
    form: Callable[..., Form]
    check: Callable[[Pretrained], None]
    shift: int


def training_task(model: str, source: Source, *, seed: int, new_head: bool = False, kind: Language) -> Task:
    """`new_head` plays no part: a language model's head is its vocabulary."""
    parts = find_parts(source, streams=True)
    column = _find_column(parts.train, source)
    for where, rows in {"train": parts.train, **parts.evaluation}.items():
        _check(rows, column, where=where)
    parts = parts.hold_out(source, seed=seed)
    build = _Build(_find_model(model, source, kind), source, column, kind)
    train = build.stream(parts.train, seed) if is_stream(parts.train) else build.blocks(parts.train, seed, "train")
    return build.task(train, parts.evaluation, note=parts.note, seed=seed)


def evaluation_task(model: str, source: Source, *, kind: Language) -> Task:
    evaluation = find_evaluation(source, streams=True)
    column = _find_column(next(iter(evaluation.values())), source)
    for where, rows in evaluation.items():
        _check(rows, column, where=where)
    build = _Build(_find_model(model, source, kind), source, column, kind)
    if not build.pretrained.has_head_of(kind.auto_class):
        raise ValueError(f"{model} has no {kind.name} head, so it cannot be scored: train it first (mgpp prune)")
    return build.task(None, evaluation, note=scored_on(evaluation))


def _find_model(model: str, source: Source, kind: Language) -> Pretrained:
    pretrained = find_pretrained(model, trust_remote_code=source.trust_remote_code)
    kind.check(pretrained)
    pretrained.check_length(source.max_length or 0)
    return pretrained


def _find_column(rows: "Dataset | IterableDataset", source: Source) -> str:
    if source.text is not None:
        return source.text
    there = list(first_rows(rows, 1).column_names)
    found = next((name for name in _COLUMNS if name in there), None)
    if found is None:
        data = describe_data(source.data)
        raise ValueError(f"which column holds the text? {data} has {', '.join(there)}: name it (--text)")
    return found


def _check(rows: "Dataset | IterableDataset", column: str, *, where: str) -> None:
    """Of a stream only its beginning can be looked at."""
    looked_at = first_rows(rows, _LOOKED_AT)
    if len(looked_at) == 0:
        raise ValueError(f"{where} has no rows: give data with at least one")
    check_column(looked_at, column, where=where, option="--text")
    check_texts(looked_at, column, where=where)


@dataclass(frozen=True)
class _Build:
    pretrained: Pretrained
    source: Source
    column: str
    kind: Language

    def task(self, train: Any, evaluation: "Mapping[str, Dataset]", *, note: str, seed: int = 0) -> Task:
        scored = {where: self.blocks(rows, _SCORING_SEED, where) for where, rows in evaluation.items()}
        sized = train is not None and not isinstance(train, Stream)
        return Task(
            train=train,
            evaluation=next(iter(scored.values())),
            tokenizer=self.pretrained.tokenizer,
            collate=stack,
            auto_class=self.kind.auto_class,
            load_model=lambda: self.pretrained.load(self.kind.auto_class),
            compute_metrics=Perplexity(shift=self.kind.shift),
            preprocess_logits=nothing,
            batch_metrics=True,
            metric="perplexity",
            lower_is_better=True,
            train_size=None if sized else self.source.train_size,
            sampler=partial(_every_time, len(train)) if sized else None,
            pipeline_tag=self.kind.pipeline_tag,
            notes=(*self._notes(), note),
        )

    def _notes(self) -> list[str]:
        told = [f"text from {self.column}, packed into blocks of {self.source.max_length} tokens"]
        if not self.pretrained.has_head_of(self.kind.auto_class):
            told.append(f"{self.pretrained.name} brings no {self.kind.name} head: it gets a new one")
        return told

    @property
    def _packing(self) -> Packing:
        return self.kind.packing(self.pretrained.tokenizer, self.source.max_length)

    def _form(self, seed: int) -> Form:
        return self.kind.form(self.pretrained.tokenizer, probability=self.source.mlm_probability, seed=seed)

    def blocks(self, rows: "Dataset", seed: int, where: str) -> Blocks:
        datasets, length = require("datasets"), self.source.max_length
        packed = rows.map(
            partial(pack_rows, column=self.column, packing=self._packing),
            batched=True,
            batch_size=DOCUMENTS,
            remove_columns=rows.column_names,
            features=datasets.Features({"input_ids": datasets.Sequence(datasets.Value("int32"), length=length)}),
            desc="packing",
        )
        if len(packed) == 0:
            raise ValueError(
                f"{where} holds less text than one block of max_length={length} tokens: give more, or lower "
                "--max-length"
            )
        return Blocks(packed, self._form(seed))

    def stream(self, documents: "IterableDataset", seed: int) -> Stream:
        made = Stream(documents, column=self.column, packing=self._packing, form=self._form(seed), seed=seed)
        next(made.blocks())  # a stream that holds no block is refused now
        return made


def _every_time(rows: int, *, batch_size: int, seed: int) -> EveryTime:
    return EveryTime(rows, seed=seed)


def _check_masked(pretrained: Pretrained) -> None:
    if type(pretrained.config) not in AutoModelForMaskedLM._model_mapping:
        raise ValueError(
            f"{pretrained.name} is a {pretrained.config.model_type}, which cannot fill in masked words: use --task clm"
        )


def _check_causal(pretrained: Pretrained) -> None:
    config = pretrained.config
    if config.is_encoder_decoder or type(config) not in AutoModelForCausalLM._model_mapping:
        raise ValueError(f"{pretrained.name} is a {config.model_type}, which is no decoder: --task clm needs one")
    reads_both_ways = type(config) in AutoModelForMaskedLM._model_mapping and not getattr(config, "is_decoder", False)
    if reads_both_ways:
        raise ValueError(
            f"{pretrained.name} is a {config.model_type}, which sees the words it should predict: use --task mlm"
        )


def _causal_form(tokenizer: Any, *, probability: float, seed: int) -> Form:
    return causal


_MASKED = Language(
    name="masked language model",
    auto_class=AutoModelForMaskedLM,
    pipeline_tag="fill-mask",
    packing=for_masked,
    form=masked,
    check=_check_masked,
    shift=0,
)
_CAUSAL = Language(
    name="language model",
    auto_class=AutoModelForCausalLM,
    pipeline_tag="text-generation",
    packing=for_causal,
    form=_causal_form,
    check=_check_causal,
    shift=1,
)


def _entry(about: str, kind: Language) -> TaskKind:
    return TaskKind(
        about=about,
        training=partial(training_task, kind=kind),
        evaluation=partial(evaluation_task, kind=kind),
        max_length=512,
    )


MLM = _entry("masked language modelling on raw text (encoders)", _MASKED)
CLM = _entry("causal language modelling on raw text (decoders)", _CAUSAL)
