"""The one table of tasks."""

from dataclasses import replace

from mgpp.tasks import glue, language, squad, summarization, text
from mgpp.tasks.source import Source
from mgpp.tasks.task import Task, TaskKind

TASKS: dict[str, TaskKind] = {
    "text": TaskKind(
        about="classification or regression of any text or pair of texts",
        training=text.training_task,
        evaluation=text.evaluation_task,
        takes_unlabelled=True,
    ),
    "cola": glue.COLA,
    "sst2": glue.SST2,
    "mrpc": glue.MRPC,
    "stsb": glue.STSB,
    "qqp": glue.QQP,
    "mnli": glue.MNLI,
    "qnli": glue.QNLI,
    "rte": glue.RTE,
    "mlm": language.MLM,
    "clm": language.CLM,
    "squad": squad.SQUAD,
    "summarization": summarization.SUMMARIZATION,
    "xsum": summarization.XSUM,
    "cnn_dailymail": summarization.CNN_DAILYMAIL,
}


def find_task(name: str) -> TaskKind:
    if name not in TASKS:
        raise ValueError(f"task={name!r} is not one of {', '.join(TASKS)}")
    return TASKS[name]


def training_task(name: str, model: str, source: Source, *, seed: int, new_head: bool = False) -> Task:
    kind = find_task(name)
    if source.unlabelled is not None and not kind.takes_unlabelled:
        able = ", ".join(other for other, kind in TASKS.items() if kind.takes_unlabelled)
        raise ValueError(f"task={name} takes no rows without labels: leave --unlabelled out; {able} take some")
    return kind.training(model, _with_length(kind, source), seed=seed, new_head=new_head)


def evaluation_task(name: str, model: str, source: Source) -> Task:
    kind = find_task(name)
    return kind.evaluation(model, _with_length(kind, source))


def _with_length(kind: TaskKind, source: Source) -> Source:
    return source if source.max_length is not None else replace(source, max_length=kind.max_length)
