"""Patterns that zeros may be asked to keep: whole blocks of weights, or N of every M.

A structure is written as a word. It is orthogonal to what a weight is worth and to what pulls it to zero. Rows are a
layer's outputs and columns its inputs, however the layer stores them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

Shape = tuple[int, int]

_FORMS = 'write "2:4" to keep 2 of every 4 inputs, or rows x columns such as "2x1" for whole blocks'


@dataclass(frozen=True)
class Blocks:
    """Blocks of `rows` outputs × `columns` inputs go or stay whole. Where a matrix is no multiple, its last are cut."""

    rows: int
    columns: int

    def __post_init__(self) -> None:
        if min(self.rows, self.columns) < 1:
            raise ValueError(f'structure="{self}": a block has at least one row and one column')

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}"

    @property
    def size(self) -> int:
        """The weights of a whole block."""
        return self.rows * self.columns

    def divides(self, shape: Shape) -> bool:
        return shape[0] % self.rows == 0 and shape[1] % self.columns == 0

    def most(self, shapes: Iterable[Shape], sparsity: float) -> int:
        """How many weights may go: as many blocks follow as fit into that."""
        return int(sparsity * sum(rows * columns for rows, columns in shapes))

    def least(self, shapes: Iterable[Shape], sparsity: float) -> int:
        """How many weights go in any case: what is missing is less than a block."""
        return max(0, self.most(shapes, sparsity) - self.size + 1)


@dataclass(frozen=True)
class Groups:
    """Of every `group` inputs next to each other at most `kept` stay, in every row; of a shorter last group, too."""

    kept: int
    group: int

    def __post_init__(self) -> None:
        if not 1 <= self.kept < self.group:
            raise ValueError(f'structure="{self}": N of M stay, and 1 <= N < M')

    def __str__(self) -> str:
        return f"{self.kept}:{self.group}"

    @property
    def sparsity(self) -> float:
        return (self.group - self.kept) / self.group

    def room(self, shape: Shape) -> int:
        """How many weights of a matrix can go, and do in the end."""
        rows, columns = shape
        whole, rest = divmod(columns, self.group)
        return rows * (whole * (self.group - self.kept) + max(0, rest - self.kept))

    def most(self, shapes: Iterable[Shape], sparsity: float) -> int:
        """How many weights go: int(v·d) on the way, and all that can in the end."""
        shapes = list(shapes)
        room = sum(self.room(shape) for shape in shapes)
        if sparsity >= self.sparsity:
            return room
        return min(room, int(sparsity * sum(rows * columns for rows, columns in shapes)))

    least = most


Structure = Blocks | Groups


def parse_structure(word: object) -> Structure:
    """ "2x1" → Blocks(2, 1),  "2:4" → Groups(2, 4)."""
    found = re.fullmatch(r"([0-9]+)([x:])([0-9]+)", word) if isinstance(word, str) else None
    if found is None:
        raise ValueError(f"structure={word!r}: {_FORMS}")
    first, between, second = found.groups()
    return Blocks(int(first), int(second)) if between == "x" else Groups(int(first), int(second))
