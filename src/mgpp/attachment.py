"""A pruner inside an optimizer's step: which optimizers it may enter, and the hooks by which it acts there."""

import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from mgpp.kernels import Plan
from mgpp.sharding import Held, Turn, stepping_optimizer

Parameters = Mapping[str, nn.Parameter]


class Before(Protocol):
    def __call__(self, grad_scale: float | Tensor, turn: Turn) -> None: ...


class After(Protocol):
    def __call__(self, turn: Turn, *, skipped: bool) -> None: ...


class Attachment:
    """To the optimizer that moves `targets` and the parameters that the method `added`; `optimizer` as the user has it.

    Until `hook` is called it is only known. `plan` is of one that can take the penalty and the count into its own pass;
    `others` are trained and not pruned.
    """

    _before: Before
    _after: After

    def __init__(self, optimizer: Any, held: Held, targets: Parameters, added: Parameters) -> None:
        self.optimizer = stepping_optimizer(optimizer)
        self.plan: Plan | None = None
        self._held = held
        self._targets = frozenset(targets.values())
        self._hooks: list[RemovableHandle] = []
        self._overflowed = False
        self._step: FrameType | None = None  # the call in which the hooks run
        trained = {param: None for group in self.optimizer.param_groups for param in group["params"]}
        names = list(targets)
        _require_targets([names[i] for i in held.untrained(self.optimizer)])
        _require_added([name for name, parameter in added.items() if parameter not in trained])
        # DeepSpeed shows only what it steps, turn by turn.
        self.others = [] if held.steps_in_turns else [param for param in trained if param not in self._targets]

    @property
    def free_plan(self) -> Plan | None:
        """What the optimizer could take along: nothing for a second pruner, which then acts around its step."""
        plan = None if self._held.steps_in_turns else getattr(self.optimizer, "plan", None)
        return None if plan is None or plan.targets else plan

    def hook(self, before: Before, after: After, *, reads_gradients: bool) -> None:
        """Call both inside every step, `before` with the scale that the gradients carry; does `after` read them?"""
        self._before, self._after = before, after
        self.plan = self.free_plan
        if self.plan is not None:
            self.plan.targets, self.plan.reads_gradients = self._targets, reads_gradients
        self._hooks = [
            self.optimizer.register_step_pre_hook(self._pre_hook),
            self.optimizer.register_step_post_hook(self._post_hook),
        ]

    def remove(self) -> None:
        """Leave the optimizer as it was."""
        for hook in self._hooks:
            hook.remove()
        if self.plan is not None:
            self.plan.clear()
            self.plan.targets, self.plan.reads_gradients, self.plan.has_rate = frozenset(), False, False

    def _pre_hook(self, optimizer: Optimizer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        # A step that calls its parent class's is one step, and torch may run the hooks around both.
        caller = sys._getframe(1)
        if self._step is not None and _is_called_by(caller, self._step):
            return
        self._step = caller  # an older one has failed
        if any(callable(arg) for arg in (*args, *kwargs.values())):
            raise ValueError("optimizer.step(closure) computes gradients after the prior is added: step without one")
        # A fused optimizer is handed scaled gradients and told of an overflow; any other is not called at all then.
        found_inf = getattr(optimizer, "found_inf", None)
        self._overflowed = found_inf is not None and bool(found_inf)
        turn = self._held.turn(optimizer)
        if turn is not None and not self._overflowed:
            scale = getattr(optimizer, "grad_scale", None)
            self._before(1.0 if scale is None else scale, turn)

    def _post_hook(self, optimizer: Optimizer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if self._step is not sys._getframe(1):
            return
        self._step = None
        turn = self._held.turn(optimizer)
        if turn is not None:
            self._after(turn, skipped=self._overflowed)


def _is_called_by(frame: FrameType | None, caller: FrameType) -> bool:
    while frame is not None and frame is not caller:
        frame = frame.f_back
    return frame is caller


def _require_targets(missing: Sequence[str]) -> None:
    if missing:
        raise ValueError(
            f"{len(missing)} weights to prune are not in the optimizer, {missing[0]} the first: add them to it, "
            "freeze them, or leave them out with exclude=; shard a model (fully_shard) before making its optimizer "
            "and Pruner, and with DeepSpeed attach to the engine"
        )


def _require_added(missing: Sequence[str]) -> None:
    if missing:
        raise ValueError(
            f"{len(missing)} parameters that the method added are not in the optimizer, {missing[0]} the first: make "
            "the Pruner (or call mgpp.prepare(model, method)) before the optimizer, and give a PruningCallback to "
            "Trainer(callbacks=...)"
        )
