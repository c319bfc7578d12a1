"""Movement pruning: scores learned straight through the mask + cubic ramp + a mask in the forward pass."""

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

from mgpp.functional.select import Cut
from mgpp.kernels import Promise
from mgpp.methods.learned import ForwardMask, LearnedScore, check_score_lr, mask_lowest, masks
from mgpp.methods.prior import Prior, check_prior, penalty_of
from mgpp.methods.ramp import Ramp
from mgpp.methods.recipe import Recipe, Score, Select, Step
from mgpp.methods.structured import Patterned, leave_masks_, matrices_beside, shapes_of
from mgpp.methods.times import Run, Time

SCOPES = ("layer", "global")


@dataclass(frozen=True, kw_only=True)
class Movement(Ramp):
    """Keeps the weights that move away from zero: S sums up (dL/dW')·W through an Adam of its own, at `score_lr`.

    `scope="layer"` prunes every matrix to the same sparsity, as the original; "global" prunes all matrices together.
    `every` is 1, as the original: a cut by these scores harms far more than one of its size by magnitude, so each is
    to be as small as can be (docs/results/movement_and_annealing.md). 17 bytes a weight.
    """

    every: Time = 1
    score_lr: float = 1e-2
    scope: Literal["layer", "global"] = "layer"
    prior: Prior | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_score_lr(self.score_lr)
        check_prior(self.prior)
        if self.scope not in SCOPES:
            raise ValueError(f"scope={self.scope!r} is not one of {', '.join(SCOPES)}")

    def recipe(self, run: Run) -> Recipe:
        schedule = self.schedule(run)
        return Recipe(
            schedule=schedule,
            score=LearnedScore(),
            penalty=penalty_of(self.prior, schedule, run),
            select=self._select(),
            between=ForwardMask(lr=self.score_lr),
        )

    def _select(self) -> Select:
        if self.pattern is None:
            return MaskEverywhere() if self.scope == "global" else MaskByLayer()
        return PatternEverywhere(self.pattern) if self.scope == "global" else PatternByLayer(self.pattern)


class MaskEverywhere(Select):
    """The lowest of all weights together leave the mask."""

    def __call__(self, step: Step, score: Score, sparsity: float) -> Cut | Promise | None:
        return mask_lowest(step, score, int(sparsity * step.num_weights))


class MaskByLayer(Select):
    """The lowest of every matrix leave the mask: the same share of each, and exactly the share of all.

    Matrix i gives up int(v·Dᵢ) - int(v·Dᵢ₋₁) weights, D being the sizes added up, so what rounding takes from one it
    gives to the next. The cut is the lowest of the matrices' cuts.
    """

    def __call__(self, step: Step, score: Score, sparsity: float) -> Cut | Promise | None:
        ends = [int(sparsity * seen) for seen in accumulate(step.holding.sizes, initial=0)]
        return mask_lowest(step, score, [after - before for before, after in pairwise(ends)])


class PatternEverywhere(Patterned):
    """The lowest of all weights together leave the mask, in a pattern."""

    def __call__(self, step: Step, score: Score, sparsity: float) -> Cut:
        return leave_masks_(
            step.matrices(masks(step)),
            self.structure.most(shapes_of(step), sparsity),
            structure=self.structure,
            score=score,
            inputs=matrices_beside(step, score.beside(step)),
        )


class PatternByLayer(Patterned):
    """The lowest of every matrix leave the mask, in a pattern: what did not fit into one is left to the next."""

    def __call__(self, step: Step, score: Score, sparsity: float) -> Cut:
        shapes, matrices = shapes_of(step), step.matrices(masks(step))
        cuts, taken = [], 0
        for i, beside in enumerate(matrices_beside(step, score.beside(step))):
            most = self.structure.most(shapes[i : i + 1], 1.0)
            k = min(most, self.structure.most(shapes[: i + 1], sparsity) - taken)
            if k == matrices[i].numel():
                matrices[i].fill_(False)
                taken += k
            else:
                cuts.append(leave_masks_([matrices[i]], k, structure=self.structure, score=score, inputs=[beside]))
                taken += cuts[-1].count
        return Cut(value=min(cut.value for cut in cuts), below=taken, ties=0)
