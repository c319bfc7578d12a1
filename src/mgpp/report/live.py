"""A run while it goes on: its records as they grow, and how long it will still take."""

import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mgpp.report.run import RECORDS_FILE, RESULT_FILE, RUN_FILE, Record

WHOLE_FILE = "whole.json"  # in a checkpoint: its step, and the seconds of training up to it
SEEN = 20  # sightings that the speed is taken from
# Silence that is worth telling of: so many times the longest that two records have lain apart, but not less than a
# minute; while nothing is known of that, or the model is scored, ten minutes.
TIMES_QUIET, LEAST_QUIET, QUIET = 10, 60.0, 600.0
STARTED_BY = {"cells": "mgpp compare", "trials": "mgpp sweep"}  # folders of runs that go on without --resume


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What is known now. None is what no record has told yet.

    `written` is when the newest record was, in seconds since 1970; `is_quiet` that this is unusually long ago. A run
    that is stopped has a `way_on`.
    """

    step: int
    last: int | None
    method: Record | None
    is_finished: bool
    is_stopped: bool
    is_quiet: bool
    written: float | None
    way_on: str | None
    seconds_left: float | None
    numbers: dict[str, float] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)


class Watcher:
    """Reads what is new at each look. A run that was resumed has rewound its records: they are then read anew.

    `is_at_work` says whether a process has the folder to itself; None, where that cannot be told. Then silence decides.
    A Trainer of one's own locks nothing, so of its run nobody can say that it is stopped.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        is_at_work: Callable[[Path], bool | None] = lambda folder: True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = Path(folder).expanduser()
        self._locks = (self.folder / RUN_FILE).exists()
        if not (self._records.exists() or self._locks):
            raise ValueError(f"there is no run in {self.folder}: name the folder that mgpp prune is writing to")
        self._is_at_work = is_at_work
        self._clock = clock
        self._written: float | None = None
        self._forget()

    @property
    def _records(self) -> Path:
        """Among the checkpoints while mgpp prune runs; else in the folder itself."""
        running = self.folder / "checkpoints" / RECORDS_FILE
        is_over = (self.folder / RESULT_FILE).exists()
        return self.folder / RECORDS_FILE if is_over or not running.exists() else running

    def _forget(self) -> None:
        self._known: tuple[Path, int] | None = None
        self._at = 0
        self._start: Record = {}
        self._step = self._widest = 0
        self._numbers: dict[str, float] = {}
        self._losses: list[float] = []
        self._sightings: deque[tuple[float, int]] = deque(maxlen=SEEN)

    def look(self) -> Sight:
        is_at_work = self._is_at_work(self.folder)  # first: a run lets go of its folder when its result is written
        for record in self._new_records():
            self._take(record)
        if not self._sightings or self._sightings[-1][1] != self._step:
            self._sightings.append((self._clock(), self._step))
        last = self._start.get("steps") or self._start.get("schedule", {}).get("last")
        self._written = _time_of(self._records) or _time_of(self.folder / RUN_FILE) or self._written
        is_finished = self._is_finished(last)
        is_quiet = not is_finished and self._is_quiet(last)
        is_stopped = self._locks and not is_finished and (is_at_work is False or (is_at_work is None and is_quiet))
        return Sight(
            step=self._step,
            last=last,
            method=self._start.get("method"),
            is_finished=is_finished,
            is_stopped=is_stopped,
            is_quiet=is_quiet,
            written=self._written,
            way_on=self._way_on(last) if is_stopped else None,
            seconds_left=None if is_finished or is_stopped or last is None else self._seconds_left(last),
            numbers=dict(self._numbers),
            losses=list(self._losses),
        )

    def _is_finished(self, last: int | None) -> bool:
        """A Trainer of one's own writes no result: its run is over with its last step."""
        return (self.folder / RESULT_FILE).exists() or (not self._locks and last is not None and self._step >= last)

    def _is_quiet(self, last: int | None) -> bool:
        if self._written is None:
            return False
        per_step = self._seconds_per_step() if last is not None and self._step < last else None
        usual = QUIET if per_step is None else max(LEAST_QUIET, TIMES_QUIET * self._widest * per_step)
        return self._clock() - self._written > usual

    def _way_on(self, last: int | None) -> str:
        """As the run itself says it when it is interrupted."""
        by = STARTED_BY.get(self.folder.resolve().parent.name)
        again = "the same command with --resume" if by is None else f"the same {by}"
        if not (self.folder / RUN_FILE).exists():
            return "no checkpoint had been written yet, so nothing is left of this run: start it again"
        steps = [mark["step"] for mark in self._marks()]
        if not steps:
            return f"no checkpoint had been written yet: {again} starts from step 1"
        kept = f"the last good checkpoint is {self.folder / 'checkpoints' / f'checkpoint-{max(steps)}'}"
        if last is not None and max(steps) >= last:
            return f"all steps are trained, and {kept}: {again} goes on with the scoring"
        return f"{kept}: {again} goes on from there"

    def _new_records(self) -> list[Record]:
        path = self._records
        try:
            with path.open("rb") as file:
                state = path.stat()
                if self._known is not None and (self._known[1] != state.st_ino or state.st_size < self._at):
                    self._forget()
                self._known = (path, state.st_ino)
                file.seek(self._at)
                whole, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []  # training has not begun, or the files are just moving
        self._at += len(whole) + len(newline)
        return [json.loads(line) for line in whole.splitlines()]

    def _take(self, record: Record) -> None:
        if record["event"] == "start":
            self._start = record
        self._widest = max(self._widest, record["step"] - self._step)
        self._step = record["step"]
        told: dict[str, Any] = {**record, **record.get("look", {})}
        wanted = (
            "sparsity",
            "target",
            "cut",
            "half_width",
            "warm_up",
            "came_back",
            "in_spike",
            "loss",
            "learning_rate",
        )
        self._numbers |= {key: told[key] for key in told if key in wanted or key.startswith("eval_")}
        if "loss" in record:
            self._losses.append(record["loss"])

    def _seconds_left(self, last: int) -> float | None:
        per_step = self._seconds_per_step()
        return None if per_step is None else per_step * (last - self._step)

    def _seconds_per_step(self) -> float | None:
        """From what was seen; at first from the newest checkpoint, or from when files were written."""
        (began, first), (now, step) = self._sightings[0], self._sightings[-1]
        if step > first:
            return (now - began) / (step - first)
        marks = self._marks()
        if marks:
            newest = max(marks, key=lambda mark: mark["step"])
            return float(newest["seconds"] / newest["step"])
        try:
            passed = self._records.stat().st_mtime - (self.folder / RUN_FILE).stat().st_mtime
        except FileNotFoundError:
            return None
        return passed / self._step if self._step and passed > 0 else None

    def _marks(self) -> list[Record]:
        """Of the checkpoints that were written to their end."""
        return [json.loads(path.read_text()) for path in self.folder.glob(f"checkpoints/checkpoint-*/{WHOLE_FILE}")]


def _time_of(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None
