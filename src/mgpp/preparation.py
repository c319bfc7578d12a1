"""What is done to a model before its run: layers changed where the method needs other ones, or the two refused."""

from collections.abc import Sequence

from torch import nn

from mgpp.methods import Method
from mgpp.sharding import engine_of
from mgpp.targets import find_targets, unwrap


def prepare(
    model: nn.Module, method: Method, *, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> dict[str, nn.Parameter]:
    """Change the model's layers where the method needs other ones, and return the parameters that it added.

    Most methods need nothing. To be called before the optimizer is made: `Pruner(...)` does it where it was not done.
    """
    require_parts_to_do(method, engine_of(model))
    return method.prepare(unwrap(model), find_targets(model, include=include, exclude=exclude))


def require_parts_to_do(method: Method, engine: str | None) -> None:
    """Refuse a method that needs whole weights where an engine shards them."""
    if engine is not None and method.needs_whole is not None:
        raise ValueError(
            f"{type(method).__name__} cannot work where {engine} shards the weights, for {method.needs_whole}: train "
            "it with DDP, or choose another method"
        )
