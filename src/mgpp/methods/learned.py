"""Scores that are learned with the weights: a mask in the forward pass, and a gradient straight through it.

Between steps the model's parameter holds W' = W ⊙ M, so that backprop gives dL/dW' for every entry, masked ones too.
Memory holds the rest: W ("latent"), the scores S ("learned_score") with their two Adam moments, and M ("keep"). The
optimizer steps W: it is put into the parameter just before the step and taken out just after it.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from mgpp.functional.adam import adam_
from mgpp.functional.chunks import chunks
from mgpp.functional.mask import mask_
from mgpp.methods.recipe import Between, Score, Step

SCORE = "learned_score"
MOMENTS = ("learned_score_mean", "learned_score_square")


def latents(step: Step) -> list[Tensor]:
    """W: the parameters themselves until the first mask."""
    return step.memory.get("latent") or list(step.weights)


def masks(step: Step) -> list[Tensor]:
    """M, to be written to at an event; from now on the latent weights lie in memory."""
    if step.memory.get("latent") is None:
        step.memory.set("latent", [weight.clone() for weight in step.weights])
    return step.memory.zeros("keep", torch.bool)


class LearnedScore(Score):
    """S. A weight that is zero itself goes first: only so can the zeros be as many as asked."""

    def beside(self, step: Step) -> list[tuple[Tensor, ...]]:
        return list(zip(latents(step), step.memory.zeros(SCORE), strict=True))

    def __call__(self, weight: Tensor, *beside: Tensor) -> Tensor:
        latent, score = beside
        return score.where(latent != 0, torch.finfo(score.dtype).min)  # not -inf: a record must be JSON


class Pressure(Protocol):
    """A penalty on the scores themselves."""

    def gradient(self, score: Tensor, *, t: int, total: int) -> Tensor:
        """Its gradient in S at step t; `total` scores there are."""


@dataclass(frozen=True, kw_only=True)
class ForwardMask(Between):
    """Masked weights are zero in the forward pass only: W keeps its value, and S may bring it back."""

    lr: float
    pressure: Pressure | None = None

    def before_step(self, step: Step) -> None:
        self._learn(step)
        keeps = step.memory.get("keep")
        if keeps is None:
            return
        for weight, latent, keep in zip(step.weights, latents(step), keeps, strict=True):
            if weight.grad is not None:
                mask_([weight.grad], [keep])  # dL/dW = dL/dW' ⊙ M
            weight.copy_(latent)

    def after_step(self, step: Step) -> None:
        for weight, latent, keep in zip(step.weights, latents(step), step.memory.get("keep") or [], strict=False):
            latent.copy_(weight)
            mask_([weight], [keep])

    def after_skip(self, step: Step) -> None:
        if step.memory.get("keep") is not None:
            self.after_event(step)

    def after_event(self, step: Step) -> None:
        for weight, latent, keep in zip(step.weights, latents(step), step.memory.get("keep") or [], strict=True):
            mask_([weight], [keep], sources=[latent])

    def _learn(self, step: Step) -> None:
        """dL/dS = (dL/dW')·W, and a step of Adam down it."""
        kept = [step.memory.zeros(kind) for kind in (SCORE, *MOMENTS)]
        for weight, latent, *moments in zip(step.weights, latents(step), *kept, strict=True):
            if weight.grad is None:
                continue
            lr = self.lr * schedule_factor(step, weight)
            for grad, w, score, mean, square in chunks(weight.grad, latent, *moments):
                slope = grad.to(score.dtype) * w
                if isinstance(step.grad_scale, Tensor) or step.grad_scale != 1:
                    slope.div_(step.grad_scale)
                if self.pressure is not None:
                    slope.add_(self.pressure.gradient(score, t=step.t, total=step.num_weights))
                adam_(score, slope, mean, square, t=step.t, lr=lr)


def schedule_factor(step: Step, weight: Tensor) -> float:
    """How far the user's schedule has moved this weight's learning rate from its start; 1 where there is none."""
    group = step.group_of(weight)
    first = float(group.get("initial_lr", 0))
    return float(group["lr"]) / first if first > 0 else 1.0


def check_score_lr(score_lr: float) -> None:
    if not 0 < score_lr < float("inf"):
        raise ValueError(f"score_lr={score_lr}: the scores' learning rate is a finite number above 0")
