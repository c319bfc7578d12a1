"""LoSparse: W = UV + S, rows of S pruned by their mean smoothed sensitivity + cubic ramp + regrowth."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from mgpp.functional.lowrank import rank_for
from mgpp.functional.rows import lowest_rows
from mgpp.functional.select import Cut
from mgpp.kernels import Promise
from mgpp.kernels.structure import zero_rows_
from mgpp.methods.ramp import Ramp, require_matrices
from mgpp.methods.recipe import Recipe, Score, Select, Step
from mgpp.methods.sensitivity import Sensitivity, check_beta
from mgpp.methods.times import Run


@dataclass(frozen=True, kw_only=True)
class LoSparse(Ramp):
    """U and V have about `ratio` times as many numbers as W, and are kept; S gives up whole rows.

    `sparsity` is 1 - (parameters left) / (weights before), U and V being among those left. The fewest rows go that
    reach it, so it is passed by less than one row. 8 bytes a weight, and U and V.
    """

    ratio: float = 0.05
    beta1: float = 0.85

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_structure("LoSparse removes whole rows, a structure of its own")
        check_beta("beta1", self.beta1)
        if not 0 < self.ratio < 1:
            raise ValueError(f"ratio={self.ratio}: the low-rank part's share of the weights, strictly between 0 and 1")

    @property
    def needs_whole(self) -> str:
        return "its low-rank layers are split from whole matrices, and lose whole rows"

    def prepare(self, model: nn.Module, targets: Mapping[str, nn.Parameter]) -> dict[str, nn.Parameter]:
        require_matrices(targets, "LoSparse")
        shapes = [tuple(weight.shape) for weight in targets.values()]
        weights = sum(rows * columns for rows, columns in shapes)
        added = sum(rank_for(*shape, ratio=self.ratio) * sum(shape) for shape in shapes)
        if int(self.sparsity * weights) + added > weights:
            raise ValueError(
                f"sparsity={self.sparsity} leaves {weights - int(self.sparsity * weights):,} of {weights:,} weights "
                f"and the low-rank part of ratio={self.ratio} alone has {added:,}: lower one of them"
            )
        from mgpp.layers import factorize_  # it needs transformers, which no other method does

        return factorize_(model, targets, ratio=self.ratio)

    def recipe(self, run: Run) -> Recipe:
        schedule = self.schedule(run)
        return Recipe(
            schedule=schedule,
            score=Sensitivity(every=schedule.every, beta1=self.beta1),
            select=Rows(first=self.initial_sparsity, last=self.sparsity),
        )


@dataclass(frozen=True, kw_only=True)
class Rows(Select):
    """The rows of lowest mean score, over all matrices together, ties by position.

    The zeros asked for are int(v·d) and, besides, as many as U and V have numbers; the latter are paid for gradually,
    in step with v from `first` to `last`, for S starts whole.
    """

    first: float
    last: float

    def __call__(self, step: Step, score: Score, sparsity: float) -> Cut | Promise | None:
        asked = int(sparsity * sum(weight.numel() for weight in step.weights)) + int(self._paid(sparsity) * step.added)
        pairs = zip(step.weights, score.beside(step), strict=True)
        means = [score(weight, *beside).mean(1) for weight, beside in pairs]
        rows = lowest_rows(means, [weight.shape[1] for weight in step.weights], asked)
        return zero_rows_(step.weights, rows, scratch=step.scratch)

    def _paid(self, sparsity: float) -> float:
        return 1.0 if sparsity >= self.last else (sparsity - self.first) / (self.last - self.first)
