"""The form of MGPP that did best here, for who does not want to choose: docs/results.md has the others beside it."""

from collections.abc import Mapping
from typing import Any

from mgpp.methods.mgpp import MGPP

RECOMMENDED: dict[str, Any] = {
    "score": "curvature",  # follows the run's own gradients
    "decoupled": True,  # follows its learning rate
    "strength": 0.1,
    "reach": 0.1,  # a small data set makes the prior strong, and it may still not undo what the optimizer does
    "spike_var": 1e-9,
    "slab_var": 0.1,
    "lr_power": 0.5,  # the learning rate that suits the dense model is too low where few weights are left
}


def spelled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """With what the form adds to `settings`; a prior that is not decoupled has no reach to limit."""
    whole = {**RECOMMENDED, **settings}
    if not whole["decoupled"] and "reach" not in settings:
        del whole["reach"]
    return whole


def recommended(*, sparsity: float | None = None, **settings: Any) -> MGPP:
    """MGPP with the curvature score, a mild prior outside Adam's moments and a learning rate that follows the share of
    weights left; `settings` are MGPP's, and go first.

    It needs an optimizer that keeps second moments (Adam and its kin). The paper's own form is `MGPP(sparsity=...)`.
    """
    return MGPP(**spelled({"sparsity": sparsity, **settings}))
