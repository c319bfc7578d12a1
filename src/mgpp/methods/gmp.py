"""Gradual magnitude pruning: magnitude + cubic ramp, no penalty."""

from dataclasses import dataclass

from mgpp.methods.magnitude import SCORES, MagnitudeRamp
from mgpp.methods.recipe import Hold, Recipe, Regrow
from mgpp.methods.structured import selection
from mgpp.methods.times import Run


@dataclass(frozen=True, kw_only=True)
class GMP(MagnitudeRamp):
    """Pruned weights may grow back, as in the paper's baseline; `hold=True` is the classic form, where they may not."""

    hold: bool = False

    @property
    def holds_zeros(self) -> bool:
        return self.hold

    def recipe(self, run: Run) -> Recipe:
        return Recipe(
            schedule=self.schedule(run),
            score=SCORES[self.score],
            select=selection(self.pattern),
            between=Hold() if self.hold else Regrow(),
        )
