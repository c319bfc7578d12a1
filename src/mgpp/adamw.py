"""AdamW that takes the pruner's work into its own pass over the weights."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from mgpp import kernels
from mgpp.functional.adamw import Adam
from mgpp.identity import are_same


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
        self._forget()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.plan.stepped.clear()
        states = self._states()
        grads = [[param.grad for param in group["params"]] for group in self.param_groups]  # each makes an object: once
        # All before any of them moves: a gradient that cannot be taken is refused here.
        found = [
            self._together(index, group["params"], grads[index], states)
            for index, group in enumerate(self.param_groups)
        ]
        for index, group in enumerate(self.param_groups):
            for turn, together in enumerate(found[index]):
                all_of_them = len(together.params) == len(grads[index])
                mine = grads[index] if all_of_them else [grads[index][i] for i in together.places]
                self._take(group, together, mine, self._scratch.setdefault((index, turn), {}))
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As torch's, which looks at each gradient before it lets it go, and takes the host twice as long."""
        if not set_to_none:
            super().zero_grad(set_to_none=False)
            return
        for group in self.param_groups:
            for param in group["params"]:
                param.grad = None

    def state_dict(self) -> dict[str, Any]:
        """As torch's, where each parameter has a counter of its own: its AdamW counts in all of them."""
        told = super().state_dict()
        for key, state in told["state"].items():
            if isinstance(state, dict) and isinstance(state.get("step"), Tensor):
                told["state"][key] = {**state, "step": state["step"].clone()}
        return told

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name in ("amsgrad", "maximize"):
            if any(group.get(name) for group in state_dict["param_groups"]):
                raise ValueError(
                    f"the checkpoint has {name}=True, which mgpp.AdamW cannot do: go on with torch's AdamW"
                )
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            shared: dict[float, Tensor] = {}
            for param in group["params"]:
                if self.state[param]:
                    count = float(self.state[param]["step"])
                    self.state[param]["step"] = shared.setdefault(count, torch.tensor(count, dtype=torch.float32))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A checkpoint is loaded, or this is a copy: nothing that was known holds."""
        super().__setstate__(state)
        self._forget()

    def _forget(self) -> None:
        self.plan: kernels.Plan = self.__dict__.get("plan") or kernels.Plan()  # a pruner has it too
        self.plan.forget()
        self._scratch: dict[tuple[int, int], dict[str, Any]] = {}
        self._known: dict[int, tuple[_Signs, list[_Together]]] = {}
        self._seen: list[Any] = []

    def _together(
        self, index: int, params: Sequence[Tensor], grads: Sequence[Any], states: list[Any]
    ) -> "list[_Together]":
        """A group's parameters that have a gradient, by the counter of their steps.

        This runs at every step, over hundreds of tensors, and what takes the host longest is to follow pointers into
        cold memory: who they are is asked anew only when something that `_find` reads has become another object.
        """
        moving = [grad is not None and not grad.is_sparse for grad in grads]
        now = _Signs(moving, self.plan.targets, _locals(params), states)
        known = self._known.get(index)
        if known is None or not now.are(known[0]):
            self.plan.forget()
            self._known = {key: value for key, value in self._known.items() if key < len(self.param_groups)}
            _refuse(params, grads)
            found = self._find(params, moving)
            known = self._known[index] = (replace(now, states=self._states()), found)  # some may be new
        return known[1]

    def _states(self) -> list[Any]:
        """Whatever is kept, and for which parameters; the same list as long as it is the same."""
        states = [*self.state, *chain.from_iterable(map(dict.values, self.state.values()))]
        if not are_same(states, self._seen):
            self._seen = states
        return self._seen

    def _find(self, params: Sequence[Tensor], moving: Sequence[bool]) -> "list[_Together]":
        """Parameters that have always moved together share a counter: nearly always there is one, and one launch. It
        lies on the CPU, as in torch's AdamW, so reading it waits for no device."""
        places = {param: i for i, param in enumerate(params) if moving[i]}
        # Those of other groups, too: a step may be taken with other groups than the state was loaded with.
        left_behind = {id(state.get("step")) for param, state in self.state.items() if param not in places}
        fresh = torch.zeros((), dtype=torch.float32)
        by_counter: dict[int, dict[Tensor, int]] = {}
        for param, place in places.items():
            by_counter.setdefault(id(self._state_of(param, fresh)["step"]), {})[param] = place
        return [self._as_one(those, alone=key not in left_behind) for key, those in by_counter.items()]

    def _as_one(self, places: dict[Tensor, int], *, alone: bool) -> "_Together":
        params = list(places)
        states = [self.state[param] for param in params]
        if not alone:  # the others stand still, and keep the counter
            counter = states[0]["step"].clone()
            for state in states:
                state["step"] = counter
        return _Together(
            params=params,
            places=list(places.values()),
            locals=_locals(params),
            means=_locals([state["exp_avg"] for state in states]),
            squares=_locals([state["exp_avg_sq"] for state in states]),
            are_targets=[param in self.plan.targets for param in params],
            counter=states[0]["step"],
        )

    def _state_of(self, param: Tensor, counter: Tensor) -> dict[str, Any]:
        state = self.state[param]
        if not state:
            state["step"] = counter
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(param), torch.zeros_like(param)
        return state

    def _take(
        self, group: dict[str, Any], together: "_Together", grads: Sequence[Any], scratch: dict[str, Any]
    ) -> None:
        beta1, beta2 = group["betas"]
        adam = Adam(
            lr=float(group["lr"]),
            beta1=beta1,
            beta2=beta2,
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            step=int(together.counter.add_(1)),
            faster=self.plan.faster,
        )
        kernels.adamw_(
            together.locals,
            _locals(grads),
            together.means,
            together.squares,
            together.are_targets,
            adam,
            self.plan.pull,
            count=self.plan.count,
            scratch=scratch,
        )
        self.plan.stepped.append(kernels.Stepped(together.params, together.squares, adam.correction2))


def _locals(tensors: Sequence[Any]) -> list[Tensor]:
    """Of DTensors (FSDP2) the parts that lie in this process; any other tensors themselves."""
    return [getattr(tensor, "_local_tensor", tensor) for tensor in tensors]


def _refuse(params: Sequence[Tensor], grads: Sequence[Any]) -> None:
    if any(grad is not None and grad.is_sparse for grad in grads):
        raise RuntimeError("AdamW takes no sparse gradients: use torch.optim.SparseAdam for that embedding")
    if any(param.is_complex() for param in params):
        raise RuntimeError("mgpp.AdamW takes no complex parameters: use torch.optim.AdamW for them")


@dataclass(frozen=True, eq=False)
class _Together:
    """Parameters of one group that share a counter, and their states."""

    params: list[Tensor]
    places: list[int]  # in the group
    locals: list[Tensor]  # what this process has of them; of their means and squares too
    means: list[Tensor]
    squares: list[Tensor]
    are_targets: list[bool]
    counter: Tensor


@dataclass(frozen=True, eq=False)
class _Signs:
    """What is known of a group holds as long as these do. They are held on to: no other object can be taken for one."""

    moving: list[bool]
    targets: frozenset[Tensor]
    parts: list[Tensor]
    states: list[Any]

    def are(self, others: "_Signs") -> bool:
        return (
            self.states is others.states
            and self.targets is others.targets
            and self.moving == others.moving
            and are_same(self.parts, others.parts)
        )
