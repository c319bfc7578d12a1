"""AdamW that takes the pruner's work into its own pass over the weights."""

from collections.abc import Callable, Iterable
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

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for index, group in enumerate(self.param_groups):
            for turn, (counter, params) in enumerate(self._by_counter(group)):
                self._take(group, int(counter), params, self._scratch.setdefault((index, turn), {}))
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            shared: dict[float, Tensor] = {}
            for param in group["params"]:
                if self.state[param]:
                    count = float(self.state[param]["step"])
                    self.state[param]["step"] = shared.setdefault(count, torch.tensor(count))

    def _by_counter(self, group: dict[str, Any]) -> list[tuple[Tensor, list[Tensor]]]:
        """The parameters that have a gradient, by the counter of their steps, which is one more now.

        Parameters that have always moved together share a counter: nearly always there is one, and one launch. It lies
        on the CPU, as in torch's AdamW, so reading it waits for no device.
        """
        params = [param for param in group["params"] if param.grad is not None]
        resting = [self.state[param] for param in group["params"] if param.grad is None]
        left_behind = {id(state["step"]) for state in resting if state}
        fresh = torch.zeros(())
        counters = [self._state_of(param, fresh)["step"] for param in params]
        if not left_behind and all([counter is counters[0] for counter in counters]):  # noqa: C419 (a list is quicker)
            return [(counters[0].add_(1), params)] if params else []
        moving: dict[int, list[Tensor]] = {}
        for param, counter in zip(params, counters, strict=True):
            moving.setdefault(id(counter), []).append(param)
        by_id = {id(counter): counter for counter in counters}
        return [
            (self._advance(by_id[key], together, alone=key not in left_behind), together)
            for key, together in moving.items()
        ]

    def _state_of(self, param: Tensor, counter: Tensor) -> dict[str, Any]:
        state = self.state[param]
        if not state:
            assert param.grad is not None
            if param.grad.is_sparse:
                raise RuntimeError("AdamW takes no sparse gradients: use torch.optim.SparseAdam for that embedding")
            state["step"] = counter
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(param), torch.zeros_like(param)
        return state

    def _advance(self, counter: Tensor, params: list[Tensor], *, alone: bool) -> Tensor:
        if not alone:  # the others stand still
            counter = counter.clone()
            for param in params:
                self.state[param]["step"] = counter
        return counter.add_(1)

    def _take(self, group: dict[str, Any], step: int, params: list[Tensor], scratch: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        states = [self.state[param] for param in params]
        kernels.adamw_(
            params,
            [param.grad for param in params if param.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            self._are_targets(params, scratch),
            Adam(
                lr=float(group["lr"]),
                beta1=beta1,
                beta2=beta2,
                eps=group["eps"],
                weight_decay=group["weight_decay"],
                step=step,
            ),
            self.plan.pull,
            count=self.plan.count,
            scratch=scratch,
        )

    def _are_targets(self, params: list[Tensor], scratch: dict[str, Any]) -> list[bool]:
        # Hashing a tensor is slow. The plan's set is replaced, never changed.
        now = (self.plan.targets, [id(param) for param in params])
        known = scratch.get("targets")
        if known is None or known[0] is not now[0] or known[1] != now[1]:
            known = scratch["targets"] = (*now, [param in self.plan.targets for param in params])
        answers: list[bool] = known[2]
        return answers
