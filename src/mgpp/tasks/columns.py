"""A column is looked at before it is used: one that is missing, or holds no text, is named with the cure."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datasets import Dataset


def check_column(part: "Dataset", column: str, *, where: str, option: str) -> None:
    if column not in part.column_names:
        there = ", ".join(part.column_names)
        raise ValueError(f"{where} has no column {column!r}: it has {there}; name one of these ({option})")


def check_texts(part: "Dataset", column: str, *, where: str, option: str = "--text") -> None:
    for row, value in enumerate(part[column]):
        if value is None:
            raise ValueError(f"row {row} of {where} has no text in {column!r}: drop the row or fill it in")
        if not isinstance(value, str):
            kind = type(value).__name__
            raise ValueError(
                f"row {row} of {where}: {column}={value!r} is {kind}, not text; name another column ({option})"
            )
