"""What the Trainer's trackers (TensorBoard, Weights & Biases, MLflow and the rest of `report_to`) are told of pruning.

The Trainer calls them before every other callback, so whatever a callback adds to `logs` comes too late for them, and
the numbers of a hundred layers do not belong among those that are printed. They get a log of their own instead.
"""

import inspect
from typing import Any

from transformers import TrainerCallback
from transformers.integrations import get_reporting_integration_callbacks
from transformers.trainer_callback import CallbackHandler

from mgpp.pruner import Pruner


class Trackers:
    """To be made in a callback, while its Trainer calls it."""

    def __init__(self) -> None:
        self._handler = _handler_above()
        self._kinds = tuple(get_reporting_integration_callbacks("all"))

    def found(self) -> list[TrainerCallback]:
        callbacks = [] if self._handler is None else self._handler.callbacks
        return [callback for callback in callbacks if isinstance(callback, self._kinds)]

    def tell(self, numbers: dict[str, float], *call: Any, **kwargs: Any) -> None:
        """`call` is what the Trainer hands to every callback: args, state, control."""
        for tracker in self.found() if numbers else []:
            tracker.on_log(*call, logs=dict(numbers), **kwargs)


def numbers_of(pruner: Pruner) -> dict[str, float]:
    """As of the last event that is known; before the first, what there is of the prior."""
    prior = pruner.prior_at(pruner.t)
    told = {name: prior[key] for key, name in _NAMES.items() if key in prior}
    if pruner.last_record is None:
        return told
    told |= {key: pruner.last_record[key] for key in ("sparsity", "cut")}
    told |= {name: value for name, value in (pruner.last_look or {}).items() if isinstance(value, float)}
    zeros = pruner.last_record["zeros"]
    return told | {f"layer_sparsity/{name}": zeros[name] / size for name, size in pruner.sizes.items()}


_NAMES = {"warm_up": "prior_warm_up", "half_width": "half_width"}


def _handler_above() -> CallbackHandler | None:
    """The one that is calling us. A Trainer hands its callbacks everything but a way to one another."""
    frame = inspect.currentframe()
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, CallbackHandler):
            return caller
        frame = frame.f_back
    return None
