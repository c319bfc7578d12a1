"""What a pruner asks of an optimizer that can take its work along, and what that optimizer tells it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mgpp.functional.adamw import Pull, wide
from mgpp.identity import are_same


@dataclass
class Count:
    """A request to count the targets' new scores in the optimizer's pass, for the event that follows it."""

    selection: Any
    done: int = 0  # how many tensors have been counted


@dataclass(frozen=True, eq=False)
class Stepped:
    """Parameters whose step has just been taken: their second moments, of which `correction` is the bias correction.
    The lists are the same ones from step to step, as long as what is in them is the same."""

    params: Sequence[Tensor]
    squares: Sequence[Tensor]
    correction: float


@dataclass
class Plan:
    """The next step's extra work: the prior's pull on `targets`, a count of their scores, and `faster` times the
    learning rate for them, if the pruner `has_rate` at all.

    `reads_gradients`: the pruner looks at the gradients after the step. A launch that adds the prior's to them as it
    goes leaves none of it there, so a coupled prior must not be asked of it. `stepped` is the optimizer's answer.
    """

    targets: frozenset[Tensor] = frozenset()
    reads_gradients: bool = False
    has_rate: bool = False
    pull: Pull | None = None
    count: Count | None = None
    faster: float = 1.0
    stepped: list[Stepped] = field(default_factory=list)
    _known: "tuple[list[Sequence[Tensor]], _Squares | None]" = field(default_factory=lambda: ([], None))

    def clear(self) -> None:
        self.pull, self.count, self.faster = None, None, 1.0
        self.stepped.clear()

    def forget(self) -> None:
        """Let go of the tensors of the last steps: the optimizer has others now."""
        self.stepped.clear()
        self._known = ([], None)

    def moments_of(self, weights: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]] | None:
        """Of each its second moments and their correction, if all of them have just been stepped."""
        lists = [weights, *(stepped.squares for stepped in self.stepped)]
        known, squares = self._known
        if not are_same(lists, known):
            squares = _squares_of(weights, self.stepped)
            # Weights that are not the optimizer's are parts made for a step, and must not be held on to.
            self._known = ([], None) if squares is None else (lists, squares)
        if squares is None:
            return None
        corrections = [torch.tensor(self.stepped[i].correction, dtype=dtype) for i, dtype in squares.kinds]
        return [(square, corrections[kind]) for square, kind in squares.each]


@dataclass(frozen=True, eq=False)
class _Squares:
    """Of weights, with the kind of each: with whom it was stepped, and the dtype of its correction."""

    each: list[tuple[Tensor, int]]
    kinds: list[tuple[int, torch.dtype]]


def _squares_of(weights: Sequence[Tensor], stepped: Sequence[Stepped]) -> _Squares | None:
    found = {
        id(param): (square, (i, wide(square.dtype)))
        for i, those in enumerate(stepped)
        for param, square in zip(those.params, those.squares, strict=True)
    }
    if not all(id(weight) in found for weight in weights):
        return None
    mine = [found[id(weight)] for weight in weights]
    kinds = list(dict.fromkeys(kind for _, kind in mine))
    return _Squares([(square, kinds.index(kind)) for square, kind in mine], kinds)
