"""What was tried beside the package's own pieces, for the ablations: other scores, another prior, and other fates for
pruned weights. They are compositions like the methods themselves; a score is written out, four bytes a weight, and
taken from there by the package's own launches."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from mgpp.methods import METHODS
from mgpp.methods.magnitude import Curvature
from mgpp.methods.mgpp import MGPP
from mgpp.methods.ramp import Schedule
from mgpp.methods.recipe import Between, Hold, Penalty, Recipe, Regrow, Step
from mgpp.methods.times import Run

Tensors = Sequence[Tensor]


def moments_of(step: Step) -> Tensors:
    """v̂ of every weight. One optimizer steps them all, so one correction is everyone's."""
    moments, corrections = zip(*Curvature().beside(step), strict=True)
    return torch._foreach_div(moments, float(corrections[0]))


def curvatures(weights: Tensors, moments: Tensors) -> Tensors:
    """|θ|·√v̂."""
    return torch._foreach_mul(torch._foreach_abs(weights), torch._foreach_sqrt(moments))


class Written(Curvature):
    """A score of all weights and their second moments at once."""

    kernel = "input"

    @abstractmethod
    def of(self, weights: Tensors, moments: Tensors) -> Tensors: ...

    def beside(self, step: Step) -> list[tuple[Tensor, ...]]:
        weights = list(step.weights)
        room = step.scratch.setdefault("scores", [torch.empty_like(weight) for weight in weights])
        torch._foreach_copy_(room, self.of(weights, moments_of(step)))
        return [(score,) for score in room]

    def __call__(self, weight: Tensor, *beside: Tensor) -> Tensor:
        return beside[0]


@dataclass(frozen=True, kw_only=True)
class Power(Written):
    """|θ|·v̂^(p/2): size at p = 0, curvature at p = 1."""

    power: float

    def of(self, weights: Tensors, moments: Tensors) -> Tensors:
        return torch._foreach_mul(torch._foreach_abs(weights), torch._foreach_pow(moments, self.power / 2))


@dataclass(frozen=True, kw_only=True)
class Levelled(Written):
    """|θ|·√v̂ over the mean of v̂ in the weight's own matrix to the power a/2: at a = 1 no matrix counts for more because
    its gradients are larger."""

    power: float

    def of(self, weights: Tensors, moments: Tensors) -> Tensors:
        levels = [moment.mean().clamp_(min=1e-30).pow_(self.power / 2) for moment in moments]
        return torch._foreach_div(curvatures(weights, moments), levels)


@dataclass(frozen=True, kw_only=True)
class Posterior(Written):
    """2 log N(θ; 0, σ1² + s²) / N(θ; 0, s²): the evidence for a slab against a point at zero, where s² = 1/F is the
    variance of θ by Laplace's method and F = `examples`·v̂ the Fisher information. Its softplus, which has the same
    order: a score is not negative."""

    examples: float
    slab_var: float

    def of(self, weights: Tensors, moments: Tensors) -> Tensors:
        return [self._of_one(weight, moment) for weight, moment in zip(weights, moments, strict=True)]

    def _of_one(self, weight: Tensor, moment: Tensor) -> Tensor:
        fisher = moment * self.examples
        odds = fisher * self.slab_var + 1
        return F.softplus(weight.square() * fisher * (1 - 1 / odds) - odds.log())


@dataclass(frozen=True, kw_only=True)
class Following(Penalty):
    """A spike that follows the run: it reaches from zero to the score that the last cut will have, as it stands now, so
    it pulls what will have to go and nothing else, by `reach` learning rates a step at its middle."""

    schedule: Schedule
    reach: float

    def after_step(self, step: Step) -> None:
        share = self.schedule.warm_up(step.t)
        if share == 0:
            return
        weights = list(step.weights)
        found = curvatures(weights, moments_of(step))
        if step.t % self.schedule.every == 0 or "level" not in step.scratch:
            step.scratch["level"] = self._level(found)
        pulls = torch._foreach_div(found, step.scratch["level"])
        torch._foreach_pow_(pulls, 4)
        torch._foreach_add_(pulls, 1.0)
        torch._foreach_reciprocal_(pulls)
        torch._foreach_mul_(pulls, self.reach * share * step.learning_rates(weights)[0])
        torch._foreach_minimum_(pulls, torch._foreach_abs(weights))  # never past zero
        torch._foreach_mul_(pulls, torch._foreach_sign(weights))
        torch._foreach_sub_(weights, pulls)

    def _level(self, found: Tensors) -> Tensor:
        sample = torch.cat([score.flatten()[::101] for score in found])
        return sample.kthvalue(max(1, int(self.schedule.sparsity * len(sample)))).values.clamp_(min=1e-30)


@dataclass(frozen=True, kw_only=True)
class Latent(Between):
    """Pruned weights are zero while the loss is computed and keep their value beside it: the optimizer moves them on,
    and the next event judges them with the others. Eight bytes a weight, four of them for which are zero."""

    schedule: Schedule

    def before_step(self, step: Step) -> None:
        latent = step.memory.get("latent")
        if latent is not None:
            torch._foreach_copy_(list(step.weights), latent)

    def after_step(self, step: Step) -> None:
        event, keep = self.schedule.is_event(step.t), step.memory.get("keep")
        if not event and keep is None:
            return
        torch._foreach_copy_(step.memory.zeros("latent"), list(step.weights))
        if not event and keep is not None:
            torch._foreach_mul_(list(step.weights), keep)

    def after_event(self, step: Step) -> None:
        for weight, keep in zip(step.weights, step.memory.zeros("keep"), strict=True):
            keep.copy_(weight != 0)


@dataclass(frozen=True, kw_only=True)
class Tried(MGPP):
    """MGPP with one of these."""

    form: Literal["curvature", "power", "levelled", "posterior"] = "power"
    power: float = 1.0
    examples: float = 1.0  # times the number of training examples
    fate: Literal["regrow", "held", "latent"] = "regrow"
    following: float | None = None  # the reach of a spike that follows the run

    def recipe(self, run: Run) -> Recipe:
        assert run.train_size is not None
        plain = super().recipe(run)
        scores = {
            "curvature": Curvature(),
            "power": Power(power=self.power),
            "levelled": Levelled(power=self.power),
            "posterior": Posterior(examples=self.examples * run.train_size, slab_var=self.slab_var),
        }
        fates = {"regrow": Regrow(), "held": Hold(), "latent": Latent(schedule=plain.schedule)}
        penalty = plain.penalty
        if self.following is not None:
            penalty = Following(schedule=plain.schedule, reach=self.following)
        return replace(plain, score=scores[self.form], between=fates[self.fate], penalty=penalty)


METHODS["tried"] = Tried  # type: ignore[assignment]
