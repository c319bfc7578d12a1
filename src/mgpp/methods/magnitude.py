"""The methods that judge a weight by its size, alone or with the curvature their optimizer has measured."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from mgpp.functional import score as scores
from mgpp.methods.adam import require_second_moments, second_moments
from mgpp.methods.ramp import Ramp
from mgpp.methods.recipe import Magnitude, Score, Step

SETTING = {"setting": 'score="curvature"', "otherwise": 'score="magnitude"'}


class Curvature(Score):
    """|θ|·√v̂, v̂ = the optimizer's own second moment: no memory, and no pass of its own."""

    kernel = "curvature"
    reads_second_moments = SETTING

    def observe(self, step: Step) -> None:
        require_second_moments(step, step.weights, **SETTING)  # at the first step, not at the first event

    def beside(self, step: Step) -> list[tuple[Tensor, ...]]:
        return list(second_moments(step, step.weights, **SETTING))

    def __call__(self, weight: Tensor, *beside: Tensor) -> Tensor:
        return scores.curvature(weight, *beside)


SCORES: dict[str, Score] = {"magnitude": Magnitude(), "curvature": Curvature()}


@dataclass(frozen=True, kw_only=True)
class MagnitudeRamp(Ramp):
    """`score`: "magnitude" is |θ|; "curvature" is |θ|·√v̂, v̂ being the second moment that Adam keeps anyway."""

    score: Literal["magnitude", "curvature"] = "magnitude"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.score not in SCORES:
            raise ValueError(f"score={self.score!r} is not one of {', '.join(SCORES)}")
