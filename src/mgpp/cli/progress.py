"""A training run on the terminal: one bar with loss, sparsity and cut; in a log file, ten lines."""

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

LINES = 10


class TrainingBar(TrainerCallback):
    """Use as a context manager, so that the terminal is restored when a run fails."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._numbers = ""
        self._doing = ""
        self._task: TaskID | None = None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> "TrainingBar":
        self._progress.start()
        self._start("reading model and data", None)
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._start("training", state.max_steps, done=state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._task is not None:
            self._progress.update(self._task, completed=state.global_step, numbers=self._numbers)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        logs = logs or {}
        shown = {name: logs[name] for name in ("loss", "sparsity", "cut") if isinstance(logs.get(name), int | float)}
        if "loss" not in shown:
            return
        self._numbers = "  ".join(f"{name} {value:.4g}" for name, value in shown.items())
        every = max(1, state.max_steps // LINES // args.logging_steps) * args.logging_steps
        if not self._console.is_terminal and state.global_step % every == 0:
            self._console.print(f"step {state.global_step}/{state.max_steps}  {self._numbers}")

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._end()

    def on_prediction_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        eval_dataloader: Any = None,
        **kwargs: Any,
    ) -> None:
        if self._doing == "training":  # its own bar stays
            return
        if self._doing != "scoring":
            self._start("scoring", len(eval_dataloader))
        if self._task is not None:
            self._progress.advance(self._task)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._doing == "scoring":
            self._end()

    def _start(self, doing: str, total: int | None, *, done: int = 0) -> None:
        self._end()
        self._doing = doing
        self._task = self._progress.add_task(doing, total=total, completed=done, numbers="")

    def _end(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task, self._doing = None, ""
