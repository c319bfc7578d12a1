"""Mixture Gaussian prior pruning: magnitude + mixture prior + cubic ramp + regrowth."""

import math
from dataclasses import dataclass

from mgpp.functional.prior import add_prior_gradient_, half_width
from mgpp.methods.ramp import Ramp, Schedule
from mgpp.methods.recipe import Penalty, Recipe, Step
from mgpp.methods.times import Run


@dataclass(frozen=True, kw_only=True)
class MGPP(Ramp):
    """λ = `slab_prob`, σ0² = `spike_var`, σ1² = `slab_var`, as in the paper; its own values are the defaults."""

    slab_prob: float = 1e-7
    spike_var: float = 1e-10
    slab_var: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.slab_prob < 1:
            raise ValueError(f"slab_prob={self.slab_prob}: a probability strictly between 0 and 1")
        # 1e-30: the prior's gradient divides by it in float32.
        if not (1e-30 <= self.spike_var < self.slab_var and math.isfinite(self.slab_var)):
            raise ValueError(
                f"spike_var={self.spike_var}, slab_var={self.slab_var}: the spike is the narrow one, "
                "1e-30 <= spike_var < slab_var"
            )

    def recipe(self, run: Run) -> Recipe:
        if run.train_size is None:
            raise ValueError("the prior is weighted by 1/n, n = number of training examples: pass train_size=n")
        schedule = self.schedule(run)
        prior = MixturePrior(
            schedule=schedule,
            train_size=run.train_size,
            slab_prob=self.slab_prob,
            spike_var=self.spike_var,
            slab_var=self.slab_var,
        )
        return Recipe(schedule=schedule, penalty=prior)


@dataclass(frozen=True, kw_only=True)
class MixturePrior(Penalty):
    """The penalty  η(t)/n · (-∇log π(θ)),  coupled: it joins the loss's gradient   (Alg. 1, line 7)."""

    schedule: Schedule
    train_size: int
    slab_prob: float
    spike_var: float
    slab_var: float

    @property
    def _shape(self) -> dict[str, float]:
        return {"slab_prob": self.slab_prob, "spike_var": self.spike_var, "slab_var": self.slab_var}

    def before_step(self, step: Step) -> None:
        scale = self.schedule.warm_up(step.t) / self.train_size * step.grad_scale
        weights = step.moving()
        add_prior_gradient_(weights, [w.grad for w in weights], scale=scale, **self._shape)

    def record(self, t: int) -> dict[str, float]:
        return {"warm_up": self.schedule.warm_up(t), "half_width": half_width(**self._shape)}
