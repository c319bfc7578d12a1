"""Scores that are learned with the weights, straight through the mask that they make: W' = W ⊙ M(S)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mgpp.functional.adam import adam_
from mgpp.functional.chunks import chunks
from mgpp.functional.mask import mask_


def learned_score(latent: Tensor, score: Tensor) -> Tensor:
    """S. A weight that is zero itself goes first: only so can the zeros be as many as asked."""
    return score.where(latent != 0, torch.finfo(score.dtype).min)  # not -inf: a record must be JSON


def learn_scores_(
    grads: Sequence[Tensor],
    latents: Sequence[Tensor],
    scores: Sequence[Tensor],
    means: Sequence[Tensor],
    squares: Sequence[Tensor],
    *,
    t: int,
    lr: float,
    grad_scale: float | Tensor = 1.0,
    pressure: float = 0.0,
) -> None:
    """Step t of Adam on S, in place, down dL/dS = (dL/dW')·W + pressure · σ(S)(1 - σ(S)).

    `grads` are dL/dW', times `grad_scale`; `latents` are W; `means` and `squares` are S's moments.
    """
    for tensors in zip(grads, latents, scores, means, squares, strict=True):
        for grad, latent, score, mean, square in chunks(*tensors):
            slope = grad.to(score.dtype) * latent
            if isinstance(grad_scale, Tensor) or grad_scale != 1:
                slope.div_(grad_scale)
            if pressure:
                sigma = torch.sigmoid(score)
                slope.add_(sigma.mul_(1 - sigma).mul_(pressure))
            adam_(score, slope, mean, square, t=t, lr=lr)


def take_mask_off_(
    weights: Sequence[Tensor], grads: Sequence[Tensor], keeps: Sequence[Tensor], latents: Sequence[Tensor]
) -> None:
    """What the optimizer steps: the weights become W, and their gradients dL/dW = dL/dW' ⊙ M."""
    mask_(grads, keeps)
    for weight, latent in zip(weights, latents, strict=True):
        weight.copy_(latent)


def put_mask_on_(weights: Sequence[Tensor], keeps: Sequence[Tensor], latents: Sequence[Tensor]) -> None:
    """What the model computes with: W is put aside into `latents`, and the weights become W' = W ⊙ M."""
    for weight, latent in zip(weights, latents, strict=True):
        latent.copy_(weight)
    mask_(weights, keeps)
