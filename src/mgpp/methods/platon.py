"""PLATON: sensitivity times its uncertainty + cubic ramp + regrowth, with or without the mixture prior."""

from dataclasses import dataclass

from mgpp.methods.prior import Prior, check_prior, penalty_of
from mgpp.methods.ramp import Ramp
from mgpp.methods.recipe import Recipe
from mgpp.methods.sensitivity import Sensitivity, check_beta
from mgpp.methods.structured import selection
from mgpp.methods.times import Run


@dataclass(frozen=True, kw_only=True)
class PLATON(Ramp):
    """Score Ī·Ū: `beta1` smooths the sensitivity |θ·grad|, `beta2` its deviation from that. 12 bytes a weight."""

    beta1: float = 0.85
    beta2: float = 0.95
    prior: Prior | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_beta("beta1", self.beta1)
        check_beta("beta2", self.beta2)
        check_prior(self.prior)

    def recipe(self, run: Run) -> Recipe:
        schedule = self.schedule(run)
        return Recipe(
            schedule=schedule,
            score=Sensitivity(every=schedule.every, beta1=self.beta1, beta2=self.beta2),
            penalty=penalty_of(self.prior, schedule, run),
            select=selection(self.pattern),
        )
