"""Mixture Gaussian prior pruning: magnitude + mixture prior + cubic ramp + regrowth."""

from dataclasses import dataclass

from mgpp.methods.magnitude import SCORES, MagnitudeRamp
from mgpp.methods.prior import Prior, unless_infinite
from mgpp.methods.recipe import Hold, Recipe, Regrow
from mgpp.methods.structured import selection
from mgpp.methods.times import Run


@dataclass(frozen=True, kw_only=True)
class MGPP(MagnitudeRamp):
    """λ = `slab_prob`, σ0² = `spike_var`, σ1² = `slab_var`, as in the paper; its own values are the defaults.

    Beyond the paper: `decoupled`, `strength`, `reach` and `slab_prob_start` as in `Prior`; `prior_warm_up=False` starts
    with the whole prior; `fix_after_ramp` ends the prior with the ramp and holds what is pruned by then.
    """

    slab_prob: float = 1e-7
    spike_var: float = 1e-10
    slab_var: float = 0.05
    decoupled: bool = False
    strength: float = 1.0
    reach: float | None = None
    slab_prob_start: float | None = None
    prior_warm_up: bool = True
    fix_after_ramp: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "reach", unless_infinite(self.reach))
        _ = self.prior  # it checks its settings

    @property
    def prior(self) -> Prior:
        return Prior(
            slab_prob=self.slab_prob,
            spike_var=self.spike_var,
            slab_var=self.slab_var,
            decoupled=self.decoupled,
            strength=self.strength,
            reach=self.reach,
            slab_prob_start=self.slab_prob_start,
            warm_up=self.prior_warm_up,
            after_ramp=not self.fix_after_ramp,
        )

    @property
    def holds_zeros(self) -> bool:
        return self.fix_after_ramp

    def recipe(self, run: Run) -> Recipe:
        schedule = self.schedule(run)
        return Recipe(
            schedule=schedule,
            score=SCORES[self.score],
            penalty=self.prior.penalty(schedule, run),
            select=selection(self.pattern),
            between=Hold(since=schedule.end) if self.fix_after_ramp else Regrow(),
        )
