"""Scores that were tried beside the package's own, for the ablations: they are compositions of the same pieces."""

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from mgpp.methods import METHODS
from mgpp.methods.magnitude import Curvature
from mgpp.methods.mgpp import MGPP
from mgpp.methods.recipe import Recipe, Step
from mgpp.methods.times import Run


@dataclass(frozen=True, kw_only=True)
class Power(Curvature):
    """|θ|·v̂^(p/2): size at p = 0, curvature at p = 1."""

    power: float
    kernel = None

    def __call__(self, weight: Tensor, *beside: Tensor) -> Tensor:
        v, correction = beside
        return weight.abs() * (v / correction.to(v.device)).pow_(self.power / 2)


@dataclass(frozen=True, kw_only=True)
class Levelled(Curvature):
    """|θ|·√v̂ over the mean of v̂ in the weight's own matrix to the power a/2: at a = 1 no matrix counts for more because
    its gradients are larger."""

    power: float
    kernel = None

    def beside(self, step: Step) -> list[tuple[Tensor, ...]]:
        return [(v, correction, v.mean().clamp_(min=1e-30)) for v, correction in super().beside(step)]

    def __call__(self, weight: Tensor, *beside: Tensor) -> Tensor:
        v, correction, level = beside
        return weight.abs() * (v / correction.to(v.device)).sqrt_() / level.pow(self.power / 2)


@dataclass(frozen=True, kw_only=True)
class Posterior(Curvature):
    """log N(θ; 0, σ1² + s²) against N(θ; 0, s²) turned round: the evidence for a slab over a point at zero, where s² =
    1/(F + 1/σ1²) is the Laplace estimate of θ's posterior variance and F = `examples`·v̂ the Fisher information."""

    examples: float
    slab_var: float
    kernel = None

    def __call__(self, weight: Tensor, *beside: Tensor) -> Tensor:
        v, correction = beside
        fisher = (v / correction.to(v.device)).mul_(self.examples)
        odds = fisher * self.slab_var + 1
        return weight.square() * fisher * (1 - 1 / odds) - odds.log()


@dataclass(frozen=True, kw_only=True)
class Tried(MGPP):
    """MGPP with one of these scores."""

    form: Literal["power", "levelled", "posterior"] = "power"
    power: float = 1.0
    examples: float = 1.0  # times the number of training examples

    def recipe(self, run: Run) -> Recipe:
        assert run.train_size is not None
        scores = {
            "power": Power(power=self.power),
            "levelled": Levelled(power=self.power),
            "posterior": Posterior(examples=self.examples * run.train_size, slab_var=self.slab_var),
        }
        return replace(super().recipe(run), score=scores[self.form])


METHODS["tried"] = Tried  # type: ignore[assignment]
