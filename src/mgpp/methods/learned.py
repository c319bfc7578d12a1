"""Scores that are learned with the weights: a mask in the forward pass, and a gradient straight through it.

Between steps the model's parameter holds W' = W ⊙ M, so that backprop gives dL/dW' for every entry, masked ones too.
Memory holds the rest: W ("latent"), the scores S ("learned_score") with their two Adam moments, and M ("keep"). The
optimizer steps W: it is put into the parameter just before the step and taken out just after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from mgpp.functional.learned import learned_score
from mgpp.functional.select import Cut
from mgpp.kernels import Promise, mask_
from mgpp.kernels.learning import learn_scores_, mask_smallest_, put_mask_on_
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


def mask_lowest(step: Step, score: Score, k: int | Sequence[int]) -> Cut | Promise | None:
    """The lowest leave the mask: k of all together, or so many of each weight."""
    return mask_smallest_(
        masks(step),
        k,
        sizes=step.holding.sizes,
        score=score,
        inputs=score.beside(step),
        ranks=step.ranks,
        scratch=step.scratch,
    )


class LearnedScore(Score):
    """S, and what is zero itself goes first."""

    def beside(self, step: Step) -> list[tuple[Tensor, ...]]:
        return list(zip(latents(step), step.memory.zeros(SCORE), strict=True))

    def __call__(self, weight: Tensor, *beside: Tensor) -> Tensor:
        return learned_score(*beside)


class Pressure(Protocol):
    """A penalty on the scores themselves, c·Σ σ(S)."""

    def strength(self, *, t: int, total: int) -> float:
        """c at step t; `total` scores there are."""
        ...


@dataclass(frozen=True, kw_only=True)
class ForwardMask(Between):
    """Masked weights are zero in the forward pass only: W keeps its value, and S may bring it back."""

    lr: float
    pressure: Pressure | None = None

    def before_step(self, step: Step) -> None:
        """S learns; then, where there is a mask, the parameter becomes W and its gradient dL/dW."""
        everything = [latents(step), *(step.memory.zeros(kind) for kind in (SCORE, *MOMENTS))]
        keeps = step.memory.get("keep")
        strength = 0.0 if self.pressure is None else self.pressure.strength(t=step.t, total=step.num_weights)
        for number, (factor, alike) in enumerate(_by_factor(step).items()):
            weights = [step.weights[i] for i in alike]
            w, score, mean, square = ([of_all[i] for i in alike] for of_all in everything)
            learn_scores_(
                weights,
                [weight.grad for weight in weights if weight.grad is not None],
                w,
                score,
                mean,
                square,
                keeps=None if keeps is None else [keeps[i] for i in alike],
                t=step.t,
                lr=self.lr * factor,
                grad_scale=step.grad_scale,
                pressure=strength,
                key=f"learned {number}",
                scratch=step.scratch,
            )
        if keeps is not None:
            for weight, latent in zip(step.weights, latents(step), strict=True):
                if weight.grad is None:
                    weight.copy_(latent)

    def after_step(self, step: Step) -> None:
        keeps = step.memory.get("keep")
        if keeps is not None:
            put_mask_on_(step.weights, keeps, latents(step), scratch=step.scratch)

    def after_skip(self, step: Step) -> None:
        if step.memory.get("keep") is not None:
            self.after_event(step)

    def after_event(self, step: Step) -> None:
        keeps = step.memory.get("keep") or []
        mask_(step.weights, keeps, sources=latents(step), of="latents", scratch=step.scratch)


def _by_factor(step: Step) -> dict[float, list[int]]:
    """The weights that have a gradient, by their `schedule_factor`: nearly always it is one for all."""
    alike: dict[float, list[int]] = {}
    for i, weight in enumerate(step.weights):
        if weight.grad is not None:
            alike.setdefault(schedule_factor(step, weight), []).append(i)
    return alike


def schedule_factor(step: Step, weight: Tensor) -> float:
    """How far the user's schedule has moved this weight's learning rate from its start; 1 where there is none."""
    group = step.group_of(weight)
    first = float(group.get("initial_lr", 0))
    return float(group["lr"]) / first if first > 0 else 1.0


def check_score_lr(score_lr: float) -> None:
    if not 0 < score_lr < float("inf"):
        raise ValueError(f"score_lr={score_lr}: the scores' learning rate is a finite number above 0")
