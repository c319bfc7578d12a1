"""Holding a mask: what is zero when training starts stays zero; with a sparsity, the ramp goes on from there."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from torch import nn

from mgpp.kernels import mask_
from mgpp.methods.magnitude import SCORES, MagnitudeRamp
from mgpp.methods.ramp import Schedule
from mgpp.methods.recipe import Hold, Recipe, Step
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

    @property
    def holds_zeros(self) -> bool:
        return True

    def schedule(self, run: Run) -> "OnTop":
        return OnTop(**asdict(super().schedule(run)))

    def recipe(self, run: Run) -> Recipe:
        return Recipe(schedule=self.schedule(run), score=SCORES[self.score], between=FromTheStart())


@dataclass(frozen=True, kw_only=True)
class OnTop(Schedule):
    """A ramp to nothing has no events."""

    def is_event(self, t: int) -> bool:
        return self.sparsity > 0 and super().is_event(t)


class FromTheStart(Hold):
    """Held weights get no gradient either: the optimizer's moments of them stay zero, and move nothing through a norm
    that it takes over a whole matrix."""

    def before_step(self, step: Step) -> None:
        # At the first step θ(0) is as it was loaded.
        keep = step.memory.made("keep", lambda weight: weight != 0)
        moving = [i for i, weight in enumerate(step.weights) if weight.grad is not None]
        grads = [weight.grad for weight in step.weights if weight.grad is not None]
        mask_(grads, [keep[i] for i in moving], of="gradients", scratch=step.scratch)
