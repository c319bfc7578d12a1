"""Optimizers that sample: gradient steps with just so much noise that the weights follow the posterior.

The gradient they are given is that of  u(θ) = loss - η/n · log π(θ),  n = `train_size`. The weights then follow
exp(-n·u(θ)/τ): the paper's target, with the temperature τ(0) = `temperature` until step `cool_after`, and
τ(0)/(t - cool_after) from then on   (the paper's appendix on annealing).
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from mgpp.functional.schedule import cooling


class _Sampler(Optimizer):
    """Counts the steps of each weight and knows the noise's size; a sampler says how one weight moves."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        train_size: int,
        temperature: float,
        cool_after: int | None,
        **more: float,
    ) -> None:
        if not (math.isfinite(lr) and lr >= 0):
            raise ValueError(f"lr={lr}: a finite number, at least 0")
        if train_size < 1:
            raise ValueError(f"train_size={train_size}: the number of training examples, at least 1")
        if not (math.isfinite(temperature) and temperature >= 0):
            raise ValueError(f"temperature={temperature}: a finite number, at least 0 (0: no noise)")
        defaults = {"lr": lr, "train_size": train_size, "temperature": temperature, "cool_after": cool_after, **more}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    state = self.state[param]
                    state["step"] = state.get("step", 0) + 1
                    self._move_(param, param.grad, state, group)
        return loss

    def _move_(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise NotImplementedError

    @staticmethod
    def _heat(t: int, group: dict[str, Any]) -> float:
        """τ(t)/n."""
        cooled = 1.0 if group["cool_after"] is None else cooling(t, end=group["cool_after"])
        return group["temperature"] * cooled / group["train_size"]


class SGLD(_Sampler):
    """Stochastic gradient Langevin dynamics:  θ ← θ - lr·∇u + √(2·lr·τ/n)·N(0, 1)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        train_size: int,
        temperature: float = 1.0,
        cool_after: int | None = None,
    ) -> None:
        super().__init__(params, lr, train_size=train_size, temperature=temperature, cool_after=cool_after)

    def _move_(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr, heat = float(group["lr"]), self._heat(state["step"], group)
        param.add_(grad, alpha=-lr)
        if heat > 0:
            param.add_(torch.randn_like(param), alpha=math.sqrt(2 * lr * heat))


class SGHMC(_Sampler):
    """Stochastic gradient Hamiltonian Monte Carlo:  v ← (1-α)·v - lr·∇u + √(2·α·lr·τ/n)·N(0, 1),  θ ← θ + v.

    α is `friction`, one minus the momentum. Keeps v: as many bytes as the weights.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        train_size: int,
        friction: float = 0.1,
        temperature: float = 1.0,
        cool_after: int | None = None,
    ) -> None:
        if not 0 < friction <= 1:
            raise ValueError(f"friction={friction}: one minus the momentum, in (0, 1]")
        super().__init__(
            params, lr, train_size=train_size, temperature=temperature, cool_after=cool_after, friction=friction
        )

    def _move_(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr, friction, heat = float(group["lr"]), group["friction"], self._heat(state["step"], group)
        if "velocity" not in state:
            state["velocity"] = torch.zeros_like(param)
        velocity = state["velocity"].mul_(1 - friction).add_(grad, alpha=-lr)
        if heat > 0:
            velocity.add_(torch.randn_like(param), alpha=math.sqrt(2 * friction * lr * heat))
        param.add_(velocity)
