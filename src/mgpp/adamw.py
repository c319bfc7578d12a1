"""AdamW that takes the pruner's work into its own pass over the weights."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mgpp import kernels
from mgpp.functional.adamw import Adam


class AdamW(torch.optim.Optimizer):
    """torch.optim.AdamW's arithmetic and state; on a GPU one launch does a step of it, the prior and an event's count.

    Use it in place of torch's: `pruner.attach(optimizer)` finds out by itself. Its checkpoints are torch's.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        for name, value in {"lr": lr, "eps": eps, "weight_decay": weight_decay}.items():
            if not value >= 0:
                raise ValueError(f"{name}={value}: at least 0")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas={betas}: both lie in [0, 1)")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.plan = kernels.Plan()
        self._scratch: dict[tuple[int, int], dict[str, Any]] = {}
        self._known: dict[int, tuple[tuple, list[_Together]]] = {}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for index, group in enumerate(self.param_groups):
            for turn, together in enumerate(self._together(index, group)):
                self._take(group, together, self._scratch.setdefault((index, turn), {}))
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            shared: dict[float, Tensor] = {}
            for param in group["params"]:
                if self.state[param]:
                    count = float(self.state[param]["step"])
                    self.state[param]["step"] = shared.setdefault(count, torch.tensor(count, dtype=torch.float32))

    def _together(self, index: int, group: dict[str, Any]) -> "list[_Together]":
        """The parameters that have a gradient, by the counter of their steps, which is one more now.

        Who they are is asked anew only when something has changed: this runs at every step, over hundreds of them.
        """
        known = self._known.get(index)
        if known is None or known[0] != self._signs(group):
            found = self._find(group)  # which may make states
            known = self._known[index] = (self._signs(group), found)
        for together in known[1]:
            together.counter.add_(1)
        return known[1]

    def _signs(self, group: dict[str, Any]) -> tuple:
        """What `_find` reads. What is known holds on to the tensors named here, so no other can have their ids."""
        moving = [(param.grad is not None, id(_local(param))) for param in group["params"]]
        return moving, self.plan.targets, [id(value) for state in self.state.values() for value in state.values()]

    def _find(self, group: dict[str, Any]) -> "list[_Together]":
        """Parameters that have always moved together share a counter: nearly always there is one, and one launch. It
        lies on the CPU, as in torch's AdamW, so reading it waits for no device."""
        params = [param for param in group["params"] if param.grad is not None]
        moving = set(params)
        # Those of other groups, too: a step may be taken with other groups than the state was loaded with.
        left_behind = {id(state["step"]) for param, state in self.state.items() if state and param not in moving}
        fresh = torch.zeros((), dtype=torch.float32)
        by_counter: dict[int, list[Tensor]] = {}
        for param in params:
            by_counter.setdefault(id(self._state_of(param, fresh)["step"]), []).append(param)
        return [self._as_one(params, alone=key not in left_behind) for key, params in by_counter.items()]

    def _as_one(self, params: list[Tensor], *, alone: bool) -> "_Together":
        states = [self.state[param] for param in params]
        if not alone:  # the others stand still, and keep the counter
            counter = states[0]["step"].clone()
            for state in states:
                state["step"] = counter
        return _Together(
            params=params,
            locals=[_local(param) for param in params],
            means=[_local(state["exp_avg"]) for state in states],
            squares=[_local(state["exp_avg_sq"]) for state in states],
            are_targets=[param in self.plan.targets for param in params],
            counter=states[0]["step"],
        )

    def _state_of(self, param: Tensor, counter: Tensor) -> dict[str, Any]:
        state = self.state[param]
        if not state:
            assert param.grad is not None
            if param.grad.is_sparse:
                raise RuntimeError("AdamW takes no sparse gradients: use torch.optim.SparseAdam for that embedding")
            state["step"] = counter
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(param), torch.zeros_like(param)
        return state

    def _take(self, group: dict[str, Any], together: "_Together", scratch: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        kernels.adamw_(
            together.locals,
            [_local(param.grad) for param in together.params if param.grad is not None],
            together.means,
            together.squares,
            together.are_targets,
            Adam(
                lr=float(group["lr"]),
                beta1=beta1,
                beta2=beta2,
                eps=group["eps"],
                weight_decay=group["weight_decay"],
                step=int(together.counter),
            ),
            self.plan.pull,
            count=self.plan.count,
            scratch=scratch,
        )


def _local(tensor: Tensor) -> Tensor:
    """The part of a DTensor (FSDP2) that lies in this process; any other tensor itself."""
    return getattr(tensor, "_local_tensor", tensor)


@dataclass(frozen=True)
class _Together:
    """Parameters of one group that share a counter, and their states."""

    params: list[Tensor]
    locals: list[Tensor]  # what this process has of them; of their means and squares too
    means: list[Tensor]
    squares: list[Tensor]
    are_targets: list[bool]
    counter: Tensor
