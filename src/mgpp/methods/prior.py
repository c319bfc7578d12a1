"""The mixture Gaussian prior as a penalty: one piece, for any method."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from mgpp.functional.adamw import Pull
from mgpp.functional.prior import half_width
from mgpp.functional.schedule import linear
from mgpp.kernels import add_prior_gradient_, shrink_by_prior_
from mgpp.methods.adam import second_moments
from mgpp.methods.ramp import Schedule
from mgpp.methods.recipe import Penalty, Step
from mgpp.methods.times import Run

SETTING = {
    "setting": "the prior's decoupled=True",
    "otherwise": 'decoupled=False and score="magnitude", as the paper has them (--method mgpp)',
}


@dataclass(frozen=True, kw_only=True)
class Prior:
    """λ = `slab_prob`, σ0² = `spike_var`, σ1² = `slab_var`, as in the paper; its own values are the defaults.

    `decoupled` applies it after the optimizer's step, as AdamW does weight decay, instead of adding it to the gradient.
    It then moves a weight by at most `reach` times the learning rate in a step. `strength` multiplies it. Over the ramp
    λ moves on a line from `slab_prob_start`, and σ0 (not σ0²) from the root of `spike_var_start`. `warm_up`: it grows
    in until the ramp starts. `after_ramp=False`: it ends with the ramp.
    """

    slab_prob: float = 1e-7
    spike_var: float = 1e-10
    slab_var: float = 0.05
    decoupled: bool = False
    strength: float = 1.0
    reach: float | None = None
    slab_prob_start: float | None = None
    spike_var_start: float | None = None
    warm_up: bool = True
    after_ramp: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "reach", unless_infinite(self.reach))
        for name in ("slab_prob", "slab_prob_start"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise ValueError(f"{name}={value}: a probability strictly between 0 and 1")
        for name in ("spike_var", "spike_var_start"):
            value = getattr(self, name)
            # 1e-30: the prior's gradient divides by it in float32.
            if value is not None and not (1e-30 <= value < self.slab_var and math.isfinite(self.slab_var)):
                raise ValueError(
                    f"{name}={value}, slab_var={self.slab_var}: the spike is the narrow one, 1e-30 <= {name} < slab_var"
                )
        if not (math.isfinite(self.strength) and self.strength >= 0):
            raise ValueError(f"strength={self.strength}: the prior's multiplier is a finite number, at least 0")
        if self.reach is not None and not self.reach > 0:
            raise ValueError(f"reach={self.reach}: learning rates a step, above 0; inf is no limit")
        if self.reach is not None and not self.decoupled:
            raise ValueError(f"reach={self.reach} limits the decoupled prior: set decoupled=True, or leave reach out")

    def penalty(self, schedule: Schedule, run: Run, *, until: int | None = None) -> "MixturePrior":
        """This prior in one run; it acts up to the step `until`, by default the one `after_ramp` says."""
        if run.train_size is None:
            raise ValueError("the prior is weighted by 1/n, n = number of training examples: pass train_size=n")
        if until is None:
            until = run.total_steps if self.after_ramp else schedule.end
        return MixturePrior(prior=self, schedule=schedule, train_size=run.train_size, until=until)


def unless_infinite(reach: float | None) -> float | None:
    """No limit is written as nothing: JSON has no infinity."""
    return None if reach == math.inf else reach


def penalty_of(prior: Prior | None, schedule: Schedule, run: Run) -> Penalty | None:
    return None if prior is None else prior.penalty(schedule, run)


def check_prior(prior: object) -> None:
    if not (prior is None or isinstance(prior, Prior)):
        raise ValueError(f"prior={prior!r}: an mgpp.Prior, a table of its settings, or nothing")


@dataclass(frozen=True, kw_only=True)
class MixturePrior(Penalty):
    """The penalty  η(t)/n · (-∇log π(θ))   (Alg. 1, line 7)."""

    prior: Prior
    schedule: Schedule
    train_size: int
    until: int

    @property
    def reads_second_moments(self) -> Mapping[str, str] | None:
        return SETTING if self.prior.decoupled and self.prior.strength > 0 else None

    def before_step(self, step: Step) -> None:
        scale = self._scale(step.t)
        if scale == 0:
            return
        if step.plan is not None and (self.prior.decoupled or not step.plan.reads_gradients):
            most = self._most(scale)
            step.plan.pull = Pull(scale=scale, decoupled=self.prior.decoupled, most=most, **self.shape(step.t))
            return
        if self.prior.decoupled:
            return
        weights = step.moving()
        grads = [weight.grad for weight in weights if weight.grad is not None]
        add_prior_gradient_(weights, grads, scale=scale * step.grad_scale, scratch=step.scratch, **self.shape(step.t))

    def after_step(self, step: Step) -> None:
        scale = self._scale(step.t)
        if not self.prior.decoupled or scale == 0 or step.plan is not None:
            return
        weights = step.moving()
        moments = second_moments(step, weights, **SETTING)
        shrink_by_prior_(
            weights,
            [v for v, _ in moments],
            scales=[lr * scale for lr in step.learning_rates(weights)],
            corrections=[correction for _, correction in moments],
            eps=[float(step.group_of(weight)["eps"]) for weight in weights],
            most=self._most(scale),
            scratch=step.scratch,
            **self.shape(step.t),
        )

    def record(self, t: int) -> dict[str, float]:
        return {"warm_up": self.warm_up(t), "half_width": half_width(**self.shape(t))}

    def shape(self, t: int) -> dict[str, float]:
        """λ, σ0² and σ1² at step t."""
        prior = self.prior
        spike_std = self._over_the_ramp(t, _root(prior.spike_var_start), math.sqrt(prior.spike_var))
        return {
            "slab_prob": self._over_the_ramp(t, prior.slab_prob_start, prior.slab_prob),
            "spike_var": prior.spike_var if prior.spike_var_start is None else spike_std**2,
            "slab_var": prior.slab_var,
        }

    def warm_up(self, t: int) -> float:
        """η(t): grows to 1 until the ramp starts; 0 once the prior has ended."""
        if t > self.until:
            return 0.0
        return self.schedule.warm_up(t) if self.prior.warm_up else 1.0

    def _scale(self, t: int) -> float:
        return self.warm_up(t) * self.prior.strength / self.train_size

    def _most(self, scale: float) -> float:
        return math.inf if self.prior.reach is None else self.prior.reach / scale

    def _over_the_ramp(self, t: int, initial: float | None, final: float) -> float:
        if initial is None:
            return final
        return linear(t, start=self.schedule.start, end=self.schedule.end, initial=initial, final=final)


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)
