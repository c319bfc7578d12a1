"""AdamW with the mixture prior inside: the readable twin of the fused step."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mgpp.functional.chunks import chunks
from mgpp.functional.prior import add_prior_gradient_, shrink_by_prior_


@dataclass(frozen=True, kw_only=True)
class Adam:
    """One step's numbers. `step` counts from 1; targets have `faster` times the learning rate of the others."""

    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    step: int
    faster: float = 1.0

    @property
    def of_targets(self) -> "Adam":
        return self if self.faster == 1 else replace(self, lr=self.lr * self.faster, faster=1.0)

    @property
    def correction1(self) -> float:
        return 1 - self.beta1**self.step

    @property
    def correction2(self) -> float:
        return 1 - self.beta2**self.step


@dataclass(frozen=True, kw_only=True)
class Pull:
    """The prior's part in a step: coupled, `scale` · (-∇ log π) joins the gradient; decoupled, it shrinks after it."""

    scale: float
    slab_prob: float
    spike_var: float
    slab_var: float
    decoupled: bool = False
    most: float = math.inf  # decoupled, it moves no weight by more than lr · scale · most

    @property
    def shape(self) -> dict[str, float]:
        return {"slab_prob": self.slab_prob, "spike_var": self.spike_var, "slab_var": self.slab_var}


def wide(dtype: torch.dtype) -> torch.dtype:
    """What is computed of numbers of this dtype has at least float32."""
    return torch.promote_types(dtype, torch.float32)


def step_(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    means: Sequence[Tensor],
    squares: Sequence[Tensor],
    adam: Adam,
) -> None:
    """AdamW alone."""
    for tensors in zip(weights, grads, means, squares, strict=True):
        for weight, grad, mean, square in chunks(*tensors):
            mean.lerp_(grad.to(mean.dtype), 1 - adam.beta1)
            square.mul_(adam.beta2).addcmul_(grad, grad, value=1 - adam.beta2)
            dtype = wide(weight.dtype)
            spread = square.to(dtype).div(adam.correction2).sqrt_().add_(adam.eps)
            update = torch.div(mean.to(dtype), spread, out=spread).mul_(adam.lr / adam.correction1)
            weight.copy_(weight.to(dtype).mul(1 - adam.lr * adam.weight_decay).sub_(update))


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a step is made of; on a CPU each has a faster form (mgpp.kernels.cpu_step)."""

    add_prior_gradient_: Callable[..., None] = add_prior_gradient_
    step_: Callable[..., None] = step_
    shrink_by_prior_: Callable[..., None] = shrink_by_prior_


READABLE = Parts()


def adamw_(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    means: Sequence[Tensor],
    squares: Sequence[Tensor],
    targets: Sequence[bool],
    adam: Adam,
    pull: Pull | None = None,
    *,
    parts: Parts = READABLE,
) -> None:
    """One AdamW step on all tensors, in place, with the prior on those that are `targets`. Gradients are not changed
    where the prior is decoupled, and hold the prior's part afterwards where it is coupled."""
    pulled = [i for i, target in enumerate(targets) if target]
    mine = [weights[i] for i in pulled]
    if pull is not None and not pull.decoupled:
        parts.add_prior_gradient_(mine, [grads[i] for i in pulled], scale=pull.scale, **pull.shape)
    for numbers, those in _by_rate(adam, targets):
        parts.step_(*[[tensors[i] for i in those] for tensors in (weights, grads, means, squares)], numbers)
    if pull is not None and pull.decoupled:
        count = len(pulled)
        parts.shrink_by_prior_(
            mine,
            [squares[i] for i in pulled],
            scales=[adam.of_targets.lr * pull.scale] * count,
            corrections=[adam.correction2] * count,
            eps=[adam.eps] * count,
            most=pull.most,
            **pull.shape,
        )


def _by_rate(adam: Adam, targets: Sequence[bool]) -> list[tuple[Adam, list[int]]]:
    """Who is stepped with which numbers."""
    if adam.faster == 1:
        return [(adam, list(range(len(targets))))]
    each = ((adam.of_targets, True), (adam, False))
    found = [(numbers, [i for i, target in enumerate(targets) if target == mine]) for numbers, mine in each]
    return [(numbers, those) for numbers, those in found if those]
