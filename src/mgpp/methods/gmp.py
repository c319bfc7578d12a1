"""Gradual magnitude pruning: magnitude + cubic ramp, no penalty."""

from dataclasses import dataclass

from mgpp.methods.ramp import Ramp
from mgpp.methods.recipe import Hold, Recipe, Regrow
from mgpp.methods.times import Run


@dataclass(frozen=True, kw_only=True)
class GMP(Ramp):
    """Pruned weights may grow back, as in the paper's baseline; `hold=True` is the classic form, where they may not."""

    hold: bool = False

    def recipe(self, run: Run) -> Recipe:
        return Recipe(schedule=self.schedule(run), between=Hold() if self.hold else Regrow())
