"""The paper's ablation: MGPP with the mixture prior replaced by a plain Gaussian one, that is, an L2 penalty."""

import math
from dataclasses import dataclass

from torch import Tensor

from mgpp.methods.magnitude import SCORES, MagnitudeRamp
from mgpp.methods.recipe import Penalty, Recipe, Step
from mgpp.methods.structured import selection
from mgpp.methods.times import Run


@dataclass(frozen=True, kw_only=True)
class L2(MagnitudeRamp):
    """`weight` is the penalty's coefficient w. Coupled, grad += w·θ; decoupled, θ ← θ·(1 - lr·w) after the step."""

    weight: float = 1e-2
    decoupled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"weight={self.weight}: the penalty's coefficient is a finite number, at least 0")

    def recipe(self, run: Run) -> Recipe:
        penalty: Penalty = DecoupledL2(self.weight) if self.decoupled else CoupledL2(self.weight)
        return Recipe(
            schedule=self.schedule(run),
            score=SCORES[self.score],
            penalty=penalty,
            select=selection(self.pattern),
        )


@dataclass(frozen=True)
class CoupledL2(Penalty):
    weight: float

    def before_step(self, step: Step) -> None:
        for weight in step.moving():
            assert weight.grad is not None
            if isinstance(step.grad_scale, Tensor):
                weight.grad.addcmul_(weight, step.grad_scale, value=self.weight)
            else:
                weight.grad.add_(weight, alpha=self.weight * step.grad_scale)


@dataclass(frozen=True)
class DecoupledL2(Penalty):
    weight: float

    def after_step(self, step: Step) -> None:
        weights = step.moving()
        for weight, lr in zip(weights, step.learning_rates(weights), strict=True):
            weight.mul_(1 - lr * self.weight)
