"""Holding a mask: what is zero when training starts stays zero; with a sparsity, the ramp goes on from there."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from torch import nn

from mgpp.functional.chunks import chunks
from mgpp.functional.mask import count_zeros
from mgpp.methods.magnitude import SCORES, MagnitudeRamp
from mgpp.methods.ramp import Schedule
from mgpp.methods.recipe import Everywhere, Hold, Recipe, Step
from mgpp.methods.times import Run


@dataclass(frozen=True, kw_only=True)
class HoldMask(MagnitudeRamp):
    """For a model that is sparse already: it learns a task, and no weight that was zero ever moves.

    `sparsity=0`, the default, prunes nothing more, and then start, end and every play no part. A sparsity beyond the
    model's own is reached by magnitude on the ramp, and what goes on the way is held, too.
    """

    sparsity: float = 0.0

    def __post_init__(self) -> None:
        self.refuse_structure(
            "the mask that is held has the structure it has: use GMP(hold=True) for one of its own, or"
        )
        super().__post_init__()

    def prepare(self, model: nn.Module, targets: Mapping[str, nn.Parameter]) -> dict[str, nn.Parameter]:
        # Sharded weights cannot be counted here; of those there is a mask to hold, or holding it does nothing.
        plain = all(type(weight) is nn.Parameter and weight.numel() for weight in targets.values())
        if (
            self.sparsity == 0
            and plain
            and all(weight.count_nonzero() == weight.numel() for weight in targets.values())
        ):
            raise ValueError("none of the model's weights is zero, there is no mask to hold: prune it first")
        return {}

    def schedule(self, run: Run) -> "OnTop":
        return OnTop(**asdict(super().schedule(run)))

    def recipe(self, run: Run) -> Recipe:
        return Recipe(
            schedule=self.schedule(run), score=SCORES[self.score], select=BesideHeld(), between=FromTheStart()
        )


@dataclass(frozen=True, kw_only=True)
class OnTop(Schedule):
    """A ramp to nothing has no events."""

    def is_event(self, t: int) -> bool:
        return self.sparsity > 0 and super().is_event(t)


class BesideHeld(Everywhere):
    """What is held counts: nothing more goes until the ramp has passed it."""

    def _count(self, step: Step, sparsity: float) -> int:
        keep = step.memory.get("keep")
        held = 0 if keep is None else count_zeros(keep, step.ranks)
        return max(held, super()._count(step, sparsity))


class FromTheStart(Hold):
    """Held weights get no gradient either: the optimizer's moments of them stay zero, and move nothing through a norm
    that it takes over a whole matrix."""

    def before_step(self, step: Step) -> None:
        # At the first step θ(0) is as it was loaded.
        for weight, keep in zip(step.weights, step.memory.made("keep", lambda weight: weight != 0), strict=True):
            if weight.grad is not None:
                for piece, kept in chunks(weight.grad, keep):
                    piece.masked_fill_(~kept, 0)
