"""Which runs a comparison is made of, and how far each of them has come."""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mgpp.methods import FORMS, METHODS, from_dict
from mgpp.run import RunConfig
from mgpp.run.config import differences
from mgpp.run.folder import RESULT_FILE, RUN_FILE, RunFolder

DENSE = "dense"
AUTO = "auto"
CELLS = "cells"
_TAUGHT = ("distil_temperature", "distil_weight", "distil_hidden", "unlabelled")  # what only a taught run may be told


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run: `method` at `sparsity` with `seed`; no method is the dense baseline."""

    method: str | None
    sparsity: float
    seed: int
    config: RunConfig

    @property
    def name(self) -> str:
        return cell_name(self.method, self.sparsity, self.seed)

    @property
    def folder(self) -> Path:
        return Path(self.config.output).expanduser()

    @property
    def result(self) -> dict[str, Any] | None:
        path = self.folder / RESULT_FILE
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    @property
    def is_finished(self) -> bool:
        return (self.folder / RESULT_FILE).is_file()

    @property
    def is_begun(self) -> bool:
        return (self.folder / RUN_FILE).is_file()

    def check(self) -> None:
        """Refuse a folder in which another run was begun, with the difference."""
        if not self.is_begun:
            return
        different = differences(RunFolder(self.folder).read()["config"], json.loads(json.dumps(self.config.to_dict())))
        if different:
            raise ValueError(
                f"{self.folder} holds another run ({'; '.join(different)}): compare with its settings, or choose "
                "another folder (--output)"
            )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`training` holds what all runs share, as RunConfig names it; `settings` what a method is told, by its name.

    `teacher` is AUTO (the dense run of the same seed), a folder or hub id, or None. The dense runs have no teacher.
    """

    output: str
    methods: Sequence[str]
    sparsities: Sequence[float]
    seeds: Sequence[int]
    training: Mapping[str, Any]
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    teacher: str | None = None

    def __post_init__(self) -> None:
        for name in ("methods", "sparsities", "seeds"):
            _require_distinct(name, getattr(self, name))
        unknown = sorted(set(self.settings) - set(self.methods))
        if unknown:
            raise ValueError(f"settings for {', '.join(unknown)}, which is not compared: add it to --methods")

    @property
    def folder(self) -> Path:
        return Path(self.output).expanduser()

    def dense(self) -> list[Cell]:
        plain = {name: value for name, value in self.training.items() if name not in _TAUGHT}
        return [self._cell(None, 0.0, seed, {**plain, "method": None}) for seed in self.seeds]

    def pruned(self) -> list[Cell]:
        """Seed by seed, so that a comparison that is stopped early has whole columns."""
        return [
            self._cell(method, sparsity, seed, {**self.training, "method": self._method(method, sparsity)})
            for seed in self.seeds
            for sparsity in self.sparsities
            for method in self.methods
        ]

    def _method(self, name: str, sparsity: float) -> Any:
        return from_dict({**self.settings.get(name, {}), "method": name, "sparsity": sparsity})

    def _cell(self, method: str | None, sparsity: float, seed: int, run: Mapping[str, Any]) -> Cell:
        output = str(self._folder_of(method, sparsity, seed))
        teacher = None if method is None else self.teacher
        if teacher == AUTO:
            teacher = str(self._folder_of(None, 0.0, seed))
        config = RunConfig(**{**run, "output": output, "seed": seed, "teacher": teacher})
        return Cell(method=method, sparsity=sparsity, seed=seed, config=config)

    def _folder_of(self, method: str | None, sparsity: float, seed: int) -> Path:
        return self.folder / CELLS / cell_name(method, sparsity, seed)


def cell_name(method: str | None, sparsity: float, seed: int) -> str:
    return f"{DENSE}-{seed}" if method is None else f"{method}-{sparsity:g}-{seed}"


def settings_by_method(pairs: Sequence[tuple[str, Any]], methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """METHOD.KEY is for one method, KEY for all; one method's own word wins."""
    shared: dict[str, Any] = {}
    own: dict[str, dict[str, Any]] = {}
    for key, value in pairs:
        method, dot, setting = key.partition(".")
        if dot and (method in METHODS or method in FORMS):
            own.setdefault(method, {})[setting] = value
        else:
            shared[key] = value
    return {name: {**shared, **own.get(name, {})} for name in dict.fromkeys([*methods, *own])}


def _require_distinct(name: str, values: Sequence[Hashable]) -> None:
    if not values:
        raise ValueError(f"{name} is empty: give at least one, such as --{name} {_EXAMPLES[name]}")
    twice = sorted({str(value) for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"{name}: {', '.join(twice)} is given twice; name each once")


_EXAMPLES = {"methods": ",".join(list(METHODS)[:2]), "sparsities": "0.8,0.9", "seeds": "0,1"}
