"""A learning rate of their own for the weights to prune, inside an optimizer's step and nowhere else."""

import copy
import functools
import types
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from mgpp.identity import are_same

Group = dict[str, Any]


class Rates:
    """Of an optimizer's `targets`. For a step its groups are split in two, those of the targets and those of the
    others; between steps they are the user's: what logs, schedules or saves them sees none of this.

    `guard`: the groups are given back by a step that fails as well.
    """

    def __init__(self, optimizer: Optimizer, targets: Iterable[Tensor], *, guard: bool) -> None:
        if any(group.get("lr") is None for group in optimizer.param_groups):
            raise ValueError(
                f"an lr_power multiplies the learning rate, and {type(optimizer).__name__} was given none (lr=None): "
                "give it one (Adafactor: relative_step=False), or set lr_power=0"
            )
        other = getattr(optimizer.step, "rates", None)
        if (other is not None and other.is_at_work) or getattr(getattr(optimizer, "plan", None), "has_rate", False):
            raise ValueError(
                "another pruner with an lr_power is attached to this optimizer: set lr_power=0 in one of them"
            )
        self._optimizer, self._targets = optimizer, list(targets)
        self._ids = {id(target) for target in self._targets}
        self._known: list[tuple[list[Tensor], list[Tensor], list[Tensor]]] = []
        self.is_at_work = True
        self._split: list[tuple[Group, list[Group]]] = []  # the user's groups, while others stand in their place
        self._wrapped = optimizer.__dict__.get("step")  # a scheduler's, if it was made before
        self._guarded = self._guarded_step() if guard else None
        if self._guarded is not None:
            optimizer.step = self._guarded  # type: ignore[method-assign]

    def raise_(self, factor: float) -> None:
        """Until `restore`, the optimizer steps the targets with `factor` times its learning rate."""
        self.restore()
        groups = self._optimizer.param_groups
        if len(self._known) != len(groups):
            self._known = [([], [], [])] * len(groups)
        self._split = [(group, self._parts(index, group, factor)) for index, group in enumerate(groups)]
        groups[:] = [part for _, parts in self._split for part in parts]  # in place: others may know the list

    def restore(self) -> None:
        split, self._split = self._split, []
        if split:
            self._optimizer.param_groups[:] = [group for group, _ in split]
        for group, parts in split:
            for key in set().union(*parts) - {"params", "lr"}:  # some optimizers count in the group
                _bring_back(group, key, [part[key] for part in parts if key in part])

    def remove(self) -> None:
        """Leave the optimizer as it was."""
        self.restore()
        self.is_at_work = False
        if self._guarded is None or self._optimizer.__dict__.get("step") is not self._guarded:
            return  # or a scheduler has wrapped it since: it does nothing any more
        if self._wrapped is None:
            del self._optimizer.step
        else:
            self._optimizer.step = self._wrapped  # type: ignore[method-assign]

    def _parts(self, index: int, group: Group, factor: float) -> list[Group]:
        own = {key: value for key, value in group.items() if key not in ("params", "lr")}
        return [
            {**{key: _own(value) for key, value in own.items()}, "params": params, "lr": rate}
            for params, rate in zip(
                self._two_of(index, group["params"]), (group["lr"] * factor, group["lr"]), strict=True
            )
            if params
        ]

    def _two_of(self, index: int, params: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """The targets among a group's parameters, and the others; who they are is found out once."""
        known, targets, others = self._known[index]
        if not are_same(known, params):
            targets = [param for param in params if id(param) in self._ids]
            others = [param for param in params if id(param) not in self._ids]
            self._known[index] = (list(params), targets, others)
        return targets, others

    def _guarded_step(self) -> types.MethodType:
        """A bound method, as schedulers want to wrap it."""
        step = self._optimizer.step

        @functools.wraps(step)
        def guarded(optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            try:
                return step(*args, **kwargs)
            finally:
                self.restore()

        guarded.rates = self  # type: ignore[attr-defined]
        return types.MethodType(guarded, self._optimizer)


def _own(value: Any) -> Any:
    """Of what an optimizer may change in place, a copy."""
    return value.clone() if isinstance(value, Tensor) else copy.copy(value)


def _bring_back(group: Group, key: str, values: Sequence[Any]) -> None:
    first, *others = values
    if not all(_is_same(first, other) for other in others):
        raise ValueError(
            f"the optimizer keeps {key!r} in its groups, and another for weights that learn faster: set lr_power=0"
        )
    if isinstance(first, Tensor) and isinstance(group.get(key), Tensor) and group[key].shape == first.shape:
        group[key].copy_(first)
    else:
        group[key] = first


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    return bool(one == other)
