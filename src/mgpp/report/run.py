"""A run as its files tell it: records.jsonl, and of a finished one result.json. No model is read."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mgpp import records
from mgpp.markup import Html, table, tag
from mgpp.methods import form_of, title_of

RECORDS_FILE, RESULT_FILE, RUN_FILE = "records.jsonl", "result.json", "run.json"
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Run:
    """`start` is the first record, `events` those of pruning, `looks` those with a look at the weights, `logs` what the
    Trainer logged.

    `result` is None while the run is not finished; `config` is None where only a Trainer of one's own wrote records.
    """

    folder: Path
    name: str
    start: Record
    events: list[Record] = field(repr=False)
    looks: list[Record] = field(repr=False)
    logs: list[Record] = field(repr=False)
    result: Record | None = field(default=None, repr=False)
    config: Record | None = field(default=None, repr=False)

    @property
    def method(self) -> Record | None:
        return self.start["method"]

    @property
    def schedule(self) -> Record | None:
        return self.start.get("schedule")

    @property
    def label(self) -> str:
        """MGPP 0.9, MGPP (recommended) 0.9, or MGPP 0.9 by curvature"""
        if self.method is None:
            return "dense"
        is_known = form_of(self.method) is not None
        by = " by curvature" if self.method.get("score") == "curvature" and not is_known else ""
        return f"{title_of(self.method)} {self.method['sparsity']:g}{by}"

    @property
    def by_size(self) -> bool:
        """Weights are judged by their size, so that a cut is one, and can be compared with a spike's half-width."""
        return (self.method or {}).get("score") == "magnitude"

    @property
    def last(self) -> int:
        """How many steps it has, or should have."""
        seen = [record["step"] for record in (*self.events, *self.logs)]
        told = self.start.get("steps") or (self.schedule or {}).get("last")
        return int(told or max(seen, default=0))

    @property
    def step(self) -> int:
        """How far it has come."""
        return max((record["step"] for record in (*self.events, *self.looks, *self.logs)), default=0)

    @property
    def cuts(self) -> list[Record]:
        """The events that took something; one that asks for none says only where the smallest weight lies."""
        return [event for event in self.events if event["sparsity"] > 0]

    @property
    def weights(self) -> dict[str, int]:
        return self.start.get("weights", {})

    def logged(self, key: str) -> tuple[list[int], list[float]]:
        """Steps and values of what the Trainer has logged under `key`."""
        found = [(log["step"], log[key]) for log in self.logs if key in log]
        return [step for step, _ in found], [value for _, value in found]

    def looked(self, key: str) -> tuple[list[int], list[float]]:
        found = [(record["step"], record["look"][key]) for record in self.looks if key in record["look"]]
        return [step for step, _ in found], [value for _, value in found]

    def _repr_html_(self) -> Html:
        rows: list[tuple[str, object]] = [("steps", f"{self.step:,} of {self.last:,}")]
        if self.events:
            rows += [("sparsity", f"{self.events[-1]['sparsity']:.4f}"), ("cut", f"{self.events[-1]['cut']:.4g}")]
        after = (self.result or {}).get("after", {})
        rows += [(name, f"{value:.4f}") for name, value in after.items()]
        return tag("div", table(rows, caption=f"{self.name}: {self.label}"))


class NothingToShow(ValueError):
    """A run that is whole, and has not recorded what was asked for."""


@contextmanager
def as_written(runs: Sequence[str | Path]) -> Iterator[None]:
    """Pages and figures look into a run's files at a hundred places: one that holds something else is named here."""
    try:
        yield
    except NothingToShow:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        where, told = ", ".join(map(str, runs)), f"{type(error).__name__}: {error}"
        raise ValueError(f"{where}: the files are not as a run writes them ({told}): mend them, or run anew") from error


def read_run(folder: str | Path, *, name: str | None = None) -> Run:
    """A run that is finished, or still going on, or that a PruningCallback in a Trainer of one's own has written."""
    path = Path(folder).expanduser()
    found = _records_in(path)
    told = records.read(found)
    if not told or told[0].get("event") != "start":
        raise ValueError(f"{found} does not begin with a start record: is it a run's, and has it begun?")
    result = _read_json(path / RESULT_FILE)
    config = (result or _read_json(path / RUN_FILE) or {}).get("config")
    return Run(
        folder=path,
        name=name or path.resolve().name,
        start=told[0],
        events=[record for record in told if record["event"] == "prune"],
        looks=[record for record in told if "look" in record],
        logs=[record for record in told if record["event"] == "log"],
        result=result,
        config=config,
    )


def read_runs(folders: Sequence[str | Path]) -> list[Run]:
    """Several, each with as much of its path for a name as it takes to tell them apart."""
    if not folders:
        raise ValueError("no run given: name the folder that mgpp prune wrote")
    paths = [Path(folder).expanduser().resolve() for folder in folders]
    twice = sorted({str(path) for path in paths if paths.count(path) > 1})
    if twice:
        raise ValueError(f"{twice[0]} is given twice: name each run once")
    return [read_run(path, name=_shortest_name(path, paths)) for path in paths]


def _shortest_name(path: Path, among: Sequence[Path]) -> str:
    for length in range(1, len(path.parts) + 1):
        tail = path.parts[-length:]
        if sum(other.parts[-length:] == tail for other in among) == 1:
            return "/".join(tail)
    return str(path)


def _records_in(folder: Path) -> Path:
    places = (folder / RECORDS_FILE, folder / "checkpoints" / RECORDS_FILE)
    for place in places:
        if place.is_file():
            return place
    if not folder.exists():
        raise ValueError(f"no folder {folder}: name the folder that mgpp prune wrote")
    if (folder / "cells").is_dir():
        raise ValueError(f"{folder} is a comparison: name runs of it, {folder / 'cells'}/…")
    raise ValueError(f"no {RECORDS_FILE} in {folder}: name the folder that mgpp prune, or a PruningCallback, wrote")


def _read_json(path: Path) -> Record | None:
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}): mend it, or run anew") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged (it holds no object): mend it, or run anew")
    return found
