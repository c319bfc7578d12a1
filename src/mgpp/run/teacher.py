"""The model that a run learns from: found and compared with the task before anything is trained."""

from typing import Any

from transformers import AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from mgpp.distillation import check_widths
from mgpp.run.config import RunConfig
from mgpp.tasks import Task
from mgpp.tasks.labels import LabelSpace
from mgpp.tasks.pretrained import Pretrained, find_pretrained

_HEADS = {AutoModelForSequenceClassification: "classification"}


def find_teacher(config: RunConfig, task: Task) -> Pretrained | None:
    """The teacher without its weights; None where the run has none."""
    if config.teacher is None:
        return None
    assert config.max_length is not None
    try:
        teacher = find_pretrained(config.teacher, trust_remote_code=config.trust_remote_code)
        teacher.check_length(config.max_length)
    except (ValueError, OSError) as error:
        raise type(error)(f"teacher: {error}") from None
    if not teacher.has_head_of(task.auto_class):
        what = _HEADS.get(task.auto_class, task.auto_class.__name__.removeprefix("AutoModelFor"))
        raise ValueError(f"the teacher {config.teacher} has no {what} head: fine-tune it first (mgpp prune)")
    _check_vocabulary(teacher, task.tokenizer)
    return teacher


def load_teacher(teacher: Pretrained, task: Task, student: PreTrainedModel, config: RunConfig) -> PreTrainedModel:
    """Its weights; refused where its answers mean something else than the student's."""
    if config.distil_hidden > 0:
        check_widths(student.config, teacher.config)
    if teacher.labels is None:
        return teacher.load(task.auto_class)
    _check_labels(teacher, teacher.labels, student.config)
    return teacher.load_classifier(teacher.labels)


def describe_teacher(config: RunConfig) -> dict[str, Any] | None:
    if config.teacher is None:
        return None
    return {
        "model": config.teacher,
        "temperature": config.distil_temperature,
        "weight": config.distil_weight,
        "hidden_weight": config.distil_hidden,
    }


def _check_vocabulary(teacher: Pretrained, tokenizer: PreTrainedTokenizerBase) -> None:
    """It reads the student's token ids, so they must mean the same words to both."""
    mine, theirs = tokenizer.get_vocab(), teacher.tokenizer.get_vocab()
    if mine == theirs:
        return
    if len(mine) != len(theirs):
        told = f"{len(theirs):,} tokens, the model has {len(mine):,}"
    else:
        word = next(word for word, number in mine.items() if theirs.get(word) != number)
        told = f"{word!r} is token {theirs.get(word)}, to the model it is {mine[word]}"
    raise ValueError(f"the teacher {teacher.name} has another vocabulary ({told}): give one with the model's tokenizer")


def _check_labels(teacher: Pretrained, head: LabelSpace, student: PreTrainedConfig) -> None:
    regression = student.problem_type == "regression"
    if student.num_labels != head.num_labels or regression != head.is_regression:
        mine = "one number" if regression else f"{student.num_labels} classes"
        raise ValueError(f"the teacher {teacher.name} answers with {head} and the model with {mine}: give another")
    names = tuple(name for _, name in sorted((student.id2label or {}).items()))
    # Names that were never given say nothing about the order.
    if regression or names == head.names or "LABEL_0" in (names[0], head.names[0]):
        return
    what = "its classes in another order" if set(names) == set(head.names) else "other classes"
    raise ValueError(
        f"the teacher {teacher.name} has {what}: {', '.join(head.names)}; the model has {', '.join(names)}: give "
        "another, or fine-tune it on the same data"
    )
