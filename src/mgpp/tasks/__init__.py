"""From rows to features to a score. A run sees only the `Task`; a new task is a file here and an entry of `TASKS`."""

from typing import TYPE_CHECKING

from mgpp.lazy import lazily
from mgpp.tasks.source import HOLDOUT, Data, Source, describe_data

if TYPE_CHECKING:
    from mgpp.tasks.table import TASKS, evaluation_task, find_task, training_task
    from mgpp.tasks.task import Generation, Task, TaskKind
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "table": ["TASKS", "evaluation_task", "find_task", "training_task"],
            "task": ["Generation", "Task", "TaskKind"],
        },
    )

__all__ = [
    "HOLDOUT",
    "TASKS",
    "Data",
    "Generation",
    "Source",
    "Task",
    "TaskKind",
    "describe_data",
    "evaluation_task",
    "find_task",
    "training_task",
]
