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


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What is known now. None is what no record has told yet."""

    step: int
    last: int | None
    method: Record | None
    is_finished: bool
    seconds_left: float | None
    numbers: dict[str, float] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)


class Watcher:
    """Reads what is new at each look. A run that was resumed has rewound its records: they are then read anew."""

    def __init__(self, folder: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = Path(folder).expanduser()
        if not (self._records.exists() or (self.folder / RUN_FILE).exists()):
            raise ValueError(f"there is no run in {self.folder}: name the folder that mgpp prune is writing to")
        self._clock = clock
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
        self._step = 0
        self._numbers: dict[str, float] = {}
        self._losses: list[float] = []
        self._sightings: deque[tuple[float, int]] = deque(maxlen=SEEN)

    def look(self) -> Sight:
        for record in self._new_records():
            self._take(record)
        if not self._sightings or self._sightings[-1][1] != self._step:
            self._sightings.append((self._clock(), self._step))
        last = self._start.get("steps") or self._start.get("schedule", {}).get("last")
        is_finished = (self.folder / RESULT_FILE).exists()
        return Sight(
            step=self._step,
            last=last,
            method=self._start.get("method"),
            is_finished=is_finished,
            seconds_left=None if is_finished or last is None else self._seconds_left(last),
            numbers=dict(self._numbers),
            losses=list(self._losses),
        )

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
        marks = [json.loads(path.read_text()) for path in self.folder.glob(f"checkpoints/checkpoint-*/{WHOLE_FILE}")]
        if marks:
            newest = max(marks, key=lambda mark: mark["step"])
            return float(newest["seconds"] / newest["step"])
        try:
            passed = self._records.stat().st_mtime - (self.folder / RUN_FILE).stat().st_mtime
        except FileNotFoundError:
            return None
        return passed / self._step if self._step and passed > 0 else None
