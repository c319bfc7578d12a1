"""What a weight has meant to the loss of late: its sensitivity, smoothed over windows of steps."""

from dataclasses import dataclass

from torch import Tensor

from mgpp.functional.score import uncertain_sensitivity
from mgpp.kernels import observe_sensitivity_
from mgpp.methods.recipe import Score, Step


@dataclass(frozen=True, kw_only=True)
class Sensitivity(Score):
    """Ī, or Ī·Ū where `beta2` is given. Keeps the window's mean and Ī (8 bytes a weight), and Ū (4 more).

    The gradient is the one the optimizer stepped with, so a penalty that was added to it is judged as well.
    """

    every: int
    beta1: float
    beta2: float | None = None
    reads_gradients = True

    @property
    def kernel(self) -> str:  # type: ignore[override]
        return "input" if self.beta2 is None else "product"

    def observe(self, step: Step) -> None:
        # A weight without a gradient was not part of this step: what is known of it stays.
        moving = [i for i, weight in enumerate(step.weights) if weight.grad is not None]
        weights = [step.weights[i] for i in moving]
        grads = [weight.grad for weight in weights if weight.grad is not None]
        kinds = ["window", "sensitivity"] if self.beta2 is None else ["window", "sensitivity", "uncertainty"]
        moments = [[step.memory.zeros(kind)[i] for i in moving] for kind in kinds]
        observe_sensitivity_(
            weights,
            grads,
            *moments,
            t=step.t,
            every=self.every,
            beta1=self.beta1,
            beta2=self.beta2 or 0.0,
            scratch=step.scratch,
        )

    def beside(self, step: Step) -> list[tuple[Tensor, ...]]:
        smoothed = step.memory.zeros("sensitivity")
        if self.beta2 is None:
            return [(mean,) for mean in smoothed]
        return list(zip(smoothed, step.memory.zeros("uncertainty"), strict=True))

    def __call__(self, weight: Tensor, *beside: Tensor) -> Tensor:
        return beside[0] if self.beta2 is None else uncertain_sensitivity(*beside)


def check_beta(name: str, beta: float) -> None:
    if not 0 <= beta < 1:
        raise ValueError(f"{name}={beta}: the share of the past that is kept lies in [0, 1)")
