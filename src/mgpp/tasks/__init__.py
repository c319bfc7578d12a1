"""From rows to features to a score. A run sees only the `Task`; a new task is a new file beside `text`."""

from mgpp.tasks.task import Task
from mgpp.tasks.text import TextData, evaluation_task, training_task

__all__ = ["Task", "TextData", "evaluation_task", "training_task"]
