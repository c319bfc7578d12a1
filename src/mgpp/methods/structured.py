"""The lowest scores in a pattern: whole blocks, or N kept of every M."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from mgpp.functional.select import Cut
from mgpp.functional.structure import Structure
from mgpp.kernels import Promise
from mgpp.kernels.structure import zero_smallest_
from mgpp.methods.recipe import Everywhere, Score, Select, Step


def selection(structure: Structure | None) -> Select:
    """The lowest of all weights together, in the structure's pattern where there is one."""
    return Everywhere() if structure is None else Structured(structure)


@dataclass(frozen=True)
class Patterned(Select):
    """What all selections in a pattern share."""

    structure: Structure

    def least(self, step: Step, sparsity: float) -> int:
        return self.structure.least(shapes_of(step), sparsity)


class Structured(Patterned):
    """The lowest of all weights together that the pattern lets go."""

    def __call__(self, step: Step, score: Score, sparsity: float) -> Cut | Promise | None:
        return zero_smallest_(
            step.matrices(step.weights),
            self.structure.most(shapes_of(step), sparsity),
            structure=self.structure,
            score=score,
            inputs=matrices_beside(step, score.beside(step)),
            kernel=score.kernel,
            scratch=step.scratch,
        )


def leave_masks_(
    masks: Sequence[Tensor],
    k: int,
    *,
    structure: Structure,
    score: Callable[..., Tensor],
    inputs: Sequence[Sequence[Tensor]],
) -> Cut:
    """At most k entries of lowest score become False, in the structure's pattern; the others True."""
    for mask in masks:
        mask.fill_(True)
    taken = zero_smallest_(masks, k, structure=structure, score=score, inputs=inputs, kernel=None, scratch={})
    assert taken is not None, "masks cannot be chosen in a CUDA graph"
    return taken if isinstance(taken, Cut) else taken.cut()


def shapes_of(step: Step) -> list[tuple[int, int]]:
    """Outputs and inputs of every weight."""
    return [(matrix.shape[0], matrix.shape[1]) for matrix in step.matrices(step.weights)]


def matrices_beside(step: Step, beside: Sequence[Sequence[Tensor]]) -> list[tuple[Tensor, ...]]:
    """The tensors beside each weight, turned as it is."""
    columns = [step.matrices(column) for column in zip(*beside, strict=True)]
    return list(zip(*columns, strict=True)) if columns else [()] * len(beside)
