"""Pruning events, and looks at the weights where none is due: what is done, and what the account is told of it."""

from collections.abc import Mapping

from mgpp.account import Account
from mgpp.functional.mask import zeros_of_each
from mgpp.functional.select import Cut
from mgpp.kernels import is_capturing
from mgpp.kernels.cpu import Taken
from mgpp.methods.recipe import Recipe, Step
from mgpp.survey import Look, Survey


class Events:
    """Of one run. Their steps have all weights, never those of one turn."""

    def __init__(self, recipe: Recipe, account: Account, survey: Survey | None) -> None:
        self.recipe, self.account, self.survey = recipe, account, survey

    def prune(self, step: Step, sparsity: float) -> None:
        prior = self.prior_at(step.t)
        look = self._begin_look(step, prior)
        taken = self.recipe.select(step, self.recipe.score, sparsity)
        self.recipe.between.after_event(step)
        if look is not None:
            look.end()
        if taken is not None:
            promise = Taken(taken, _zeros_of_each(step)) if isinstance(taken, Cut) else taken
            self.account.add({"event": "prune", "step": step.t, "target": sparsity, **prior}, promise, look)

    def look_around(self, step: Step) -> None:
        prior = self.prior_at(step.t)
        look = self._begin_look(step, prior)
        if look is not None:
            look.end()
            self.account.add({"event": "look", "step": step.t, **prior}, None, look)

    def prior_at(self, t: int) -> dict[str, float]:
        return {} if self.recipe.penalty is None else self.recipe.penalty.record(t)

    def _begin_look(self, step: Step, prior: Mapping[str, float]) -> Look | None:
        if self.survey is None or is_capturing():
            return None
        return self.survey.begin(step.t, step.weights, prior.get("half_width"))


def _zeros_of_each(step: Step) -> list[int]:
    return zeros_of_each(step.weights, step.ranks).tolist()
