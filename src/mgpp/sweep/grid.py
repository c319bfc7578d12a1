"""What a sweep tries: which settings, which values, and the run that a choice of them makes."""

import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from mgpp.methods import METHODS
from mgpp.presets import Settings
from mgpp.presets.check import check_settings
from mgpp.presets.read import RUN_KEYS
from mgpp.run import RunConfig
from mgpp.tasks import HOLDOUT

OF_METHOD = "method."

# The appendix's: "Experiments" for the run and MGPP, "Ablation Study" for L2.
_RUN_GRID: "dict[str, Values]" = {
    "learning_rate": (1e-4, 9e-5, 8e-5, 7e-5, 5e-5, 2e-5, 1e-5),
    "batch_size": (8, 16, 32, 64),
}
_METHOD_GRIDS: "dict[str, dict[str, Values]]" = {
    "mgpp": {"method.spike_var": (1e-9, 1e-10), "method.slab_var": (0.1, 0.05)},
    "l2": {"method.weight": (0.1, 1e-2, 1e-3, 1e-4, 1e-5)},
}

# What a trial's place or the sweep itself decides.
_NOT_SWEPT = ("eval_split", "eval_data", "eval_steps", "holdout", "workers", "device", "task")


@dataclass(frozen=True)
class Range:
    """Any value from `low` to `high`; evenly in its logarithm where both are positive."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"{self.low}..{self.high}: a range goes from a smaller number to a larger one")


Values = Sequence[Any] | Range


def paper_grid(method: str | None) -> dict[str, Values]:
    """The values that the paper chose from; of a method without such a list, the run's alone."""
    return {**_RUN_GRID, **_METHOD_GRIDS.get(method or "", {})}


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """`settings` hold what all trials share, `grid` the values to choose from, by RunConfig's name or method.NAME.

    Every trial learns from the training rows less the share `holdout`, and is scored on that share: the validation rows
    are for the one run that is made of the best, and would flatter it if they had chosen it. `evaluations` is how often
    a trial is scored on its way, for the pruner to compare it with others.
    """

    output: str
    settings: Settings
    grid: Mapping[str, Values]
    evaluations: int = 10

    def __post_init__(self) -> None:
        if not self.grid:
            raise ValueError("there is nothing to try: give --grid, such as --grid learning_rate=1e-5,5e-5")
        if self.evaluations < 1:
            raise ValueError(f"evaluations={self.evaluations}: at least 1")
        for key, values in self.grid.items():
            self._check_key(key)
            _check_values(key, (values.low, values.high) if isinstance(values, Range) else values)
        self.config(next(self.points()), output="OUT")

    @property
    def folder(self) -> Path:
        return Path(self.output).expanduser()

    @property
    def size(self) -> int | None:
        """How many points there are; None where a range has no end of them."""
        size = 1
        for values in self.grid.values():
            if isinstance(values, Range):
                return None
            size *= len(values)
        return size

    def points(self) -> Iterator[dict[str, Any]]:
        """Every point; a range is there with its two ends."""
        ends = [(values.low, values.high) if isinstance(values, Range) else values for values in self.grid.values()]
        for values in itertools.product(*ends):
            yield dict(zip(self.grid, values, strict=True))

    def chosen(self, point: Mapping[str, Any]) -> Settings:
        """The settings with this point's values, as a run on all of the data would have them."""
        run = {key: value for key, value in point.items() if not key.startswith(OF_METHOD)}
        method = {key.removeprefix(OF_METHOD): value for key, value in point.items() if key.startswith(OF_METHOD)}
        return self.settings.changed(run, settings=method)

    def config(self, point: Mapping[str, Any], *, output: str) -> RunConfig:
        """A trial's run."""
        config = self.chosen(point).config(output=output)
        return replace(config, eval_data=None, eval_split=HOLDOUT)

    def _check_key(self, key: str) -> None:
        if key.startswith(OF_METHOD):
            if self.settings.method is None:
                raise ValueError(f"{key}: nothing is pruned, so there is no method to try settings of")
            return  # the method itself knows its settings, and says so
        known = [name for name in RUN_KEYS if name not in _NOT_SWEPT]
        if key in known:
            return
        method = METHODS.get((self.settings.method or {}).get("method", ""))
        if method is not None and key in {field.name for field in fields(method)}:
            raise ValueError(f"{key} is a setting of the method: write it as {OF_METHOD}{key}")
        near = [] if key in RUN_KEYS else difflib.get_close_matches(key, known, n=1)
        others = f"{', '.join(known)} can, and {OF_METHOD}NAME for the method's settings"
        raise ValueError(f"{key} cannot be swept: {f'did you mean {near[0]}?' if near else others}")


def _check_values(key: str, values: Sequence[Any]) -> None:
    if not values:
        raise ValueError(f"{key}: no value is given; name at least one")
    if len(set(values)) < len(values):
        raise ValueError(f"{key}: a value is given twice; name each once")
    if not key.startswith(OF_METHOD):
        for value in values:
            check_settings({key: value}, RUN_KEYS, where="in the grid")
