"""What a label column means: classes (ints from 0, or strings) or numbers (floats: regression)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mgpp.tasks.extra import require

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class LabelColumn:
    """A checked column. `kind` is int, str or float; `names` are its classes' where the data set has them."""

    values: Sequence[Any]
    kind: type
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabelSpace:
    """The classes in the model's order; none means regression."""

    names: tuple[str, ...] = ()

    @property
    def is_regression(self) -> bool:
        return not self.names

    @property
    def num_labels(self) -> int:
        return len(self.names) or 1

    def __str__(self) -> str:
        if self.is_regression:
            return "one number"
        nameless = self.names[0] == "LABEL_0"
        return f"{self.num_labels} classes" if nameless else f"{self.num_labels} classes: {_some(self.names)}"

    @property
    def missing(self) -> int | float:
        """In the place of a label, for a row that has none."""
        return math.nan if self.is_regression else -1

    def encode(self, values: Sequence[Any]) -> list[int] | list[float]:
        if self.is_regression:
            return [float(value) for value in values]
        index = {name: number for number, name in enumerate(self.names)}
        return [index[value] if isinstance(value, str) else int(value) for value in values]


def read_labels(rows: "Dataset", column: str, *, where: str) -> LabelColumn:
    """The labels of `rows`, checked one by one: a bad one is named with its row."""
    feature = rows.features[column]
    values = rows[column][:]
    names = tuple(feature.names) if isinstance(feature, require("datasets").ClassLabel) else ()
    kind = int if names else _kind(str(getattr(feature, "dtype", feature)), column, where)
    for row, value in enumerate(values):
        _check(value, kind, f"row {row} of {where}: {column}={value!r}")
    return LabelColumn(values=values, kind=kind, names=names)


def _kind(dtype: str, column: str, where: str) -> type:
    if dtype == "bool" or dtype.startswith(("int", "uint")):
        return int
    if "string" in dtype:
        return str
    if dtype.startswith(("float", "double")):
        return float
    raise ValueError(
        f"{column} in {where} holds {dtype}: labels are ints from 0, strings, or floats for regression, all of one type"
    )


def _check(value: Any, kind: type, told: str) -> None:
    if value is None:
        raise ValueError(f"{told}: the label is missing; drop the row or fill it in")
    if kind is float and not math.isfinite(value):
        raise ValueError(
            f"{told}: the label is not a finite number; drop the row or fill it in (a missing label makes a column of "
            "ints one of floats)"
        )
    if kind is int and value < 0:
        raise ValueError(f"{told}: classes are numbered from 0, a negative one marks an unlabelled row; drop it")


def label_space(train: LabelColumn) -> LabelSpace:
    """The classes that the training labels span: named ones as the data set says, strings sorted, ints 0 to C-1."""
    if train.kind is float:
        if len(set(train.values)) < 2:
            raise ValueError(f"every training label is {train.values[0]!r}: there is nothing to learn")
        return LabelSpace()
    seen: list[Any] = sorted({int(value) if train.kind is int else value for value in train.values})
    if len(seen) < 2:
        raise ValueError(f"every training label is {seen[0]!r}: there is nothing to learn")
    if train.kind is str:
        return LabelSpace(tuple(seen))
    if train.names:
        return LabelSpace(train.names)
    if seen != list(range(len(seen))):
        raise ValueError(
            f"the labels {_some(seen)} are not 0 to {len(seen) - 1}: number the classes from 0 without a gap, or write "
            "them as strings for classes, as floats (1.0) for regression"
        )
    return LabelSpace(tuple(f"LABEL_{number}" for number in seen))


def check_fit(space: LabelSpace, labels: LabelColumn, *, where: str, known: str) -> None:
    """Refuse labels that `space`, which comes from `known`, does not have."""
    if space.is_regression:
        if labels.kind is str:
            raise ValueError(f"the labels of {where} are strings and {known} is for numbers: give the same kind")
        return
    if labels.kind is float:
        raise ValueError(f"the labels of {where} are floats and {known} has classes: give ints or strings")
    if labels.kind is str:
        strange = sorted(set(labels.values) - set(space.names))
    else:
        strange = sorted({int(value) for value in labels.values if value >= space.num_labels})
    if strange:
        raise ValueError(
            f"{where} has labels {_some(strange)} that {known} does not: {known} has {_some(space.names)}; "
            "correct them, or drop these rows"
        )


def check_seen(train: LabelColumn, evaluation: LabelColumn, *, where: str) -> None:
    """A class that only the evaluation rows have cannot be learnt: most likely the splits do not belong together."""
    if train.kind is float:
        return
    unseen = sorted(set(evaluation.values) - set(train.values))
    if unseen:
        raise ValueError(
            f"{where} has labels that train never shows: {_some(unseen)}; drop these rows, or train on such rows"
        )


def _some(values: Sequence[Any], limit: int = 8) -> str:
    shown = ", ".join(repr(value) for value in values[:limit])
    return shown + (f" and {len(values) - limit} more" if len(values) > limit else "")
