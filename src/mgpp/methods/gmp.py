"""Gradual magnitude pruning: magnitude + cubic ramp, no penalty."""

from dataclasses import dataclass

from mgpp.methods.recipe import Ramp, Recipe
from mgpp.methods.times import Run


@dataclass(frozen=True, kw_only=True)
class GMP(Ramp):
    """Pruned weights may grow back, as in the paper's baseline; `hold=True` is the classic form, where they may not."""

    hold: bool = False

    def recipe(self, run: Run) -> Recipe:
        return Recipe(schedule=self.schedule(run), hold="always" if self.hold else "never")
