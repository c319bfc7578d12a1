"""AdamW that takes the pruner's work into its own pass over the weights."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import is_
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
        self._known: dict[int, tuple[_Signs, list[_Together]]] = {}
        self._seen: list[Any] = []

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.plan.stepped.clear()
        states = self._states()
        for index, group in enumerate(self.param_groups):
            grads = [param.grad for param in group["params"]]  # once: each call makes an object
            for turn, together in enumerate(self._together(index, group["params"], grads, states)):
                mine = grads if len(together.params) == len(grads) else [grads[i] for i in together.places]
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

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            shared: dict[float, Tensor] = {}
            for param in group["params"]:
                if self.state[param]:
                    count = float(self.state[param]["step"])
                    self.state[param]["step"] = shared.setdefault(count, torch.tensor(count, dtype=torch.float32))

    def _together(
        self, index: int, params: Sequence[Tensor], grads: Sequence[Any], states: list[Any]
    ) -> "list[_Together]":
        """A group's parameters that have a gradient, by the counter of their steps.

        This runs at every step, over hundreds of tensors, and what takes the host longest is to follow pointers into
        cold memory: who they are is asked anew only when something that `_find` reads has become another object.
        """
        now = _Signs([grad is not None for grad in grads], self.plan.targets, _locals(params), states)
        known = self._known.get(index)
        if known is None or not now.are(known[0]):
            found = self._find(params, now.moving)
            known = self._known[index] = (replace(now, states=self._states()), found)  # some may be new
        return known[1]

    def _states(self) -> list[Any]:
        """Whatever is kept for whichever parameter; the same list as long as it is the same."""
        states = [*chain.from_iterable(map(dict.values, self.state.values()))]
        if not _are(states, self._seen):
            self._seen = states
        return self._seen

    def _find(self, params: Sequence[Tensor], moving: Sequence[bool]) -> "list[_Together]":
        """Parameters that have always moved together share a counter: nearly always there is one, and one launch. It
        lies on the CPU, as in torch's AdamW, so reading it waits for no device."""
        places = {param: i for i, param in enumerate(params) if moving[i]}
        # Those of other groups, too: a step may be taken with other groups than the state was loaded with.
        left_behind = {id(state["step"]) for param, state in self.state.items() if state and param not in places}
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
            assert param.grad is not None
            if param.grad.is_sparse:
                raise RuntimeError("AdamW takes no sparse gradients: use torch.optim.SparseAdam for that embedding")
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


def _are(these: Sequence[Any], those: Sequence[Any]) -> bool:
    """Is each the very object that the other is? Equality would compare tensors number by number."""
    return these is those or (len(these) == len(those) and all(map(is_, these, those)))


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
            and _are(self.parts, others.parts)
        )
