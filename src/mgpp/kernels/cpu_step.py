"""AdamW and the decoupled prior on a CPU: torch's own fused step, and the shrinking in one pass (passes.py) or few."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adamw import adamw as torchs_adamw

from mgpp.functional.adamw import Adam, Parts
from mgpp.functional.prior import least_size
from mgpp.kernels import passes
from mgpp.kernels.cpu import LARGEST, Stiffness, add_prior_gradient_
from mgpp.kernels.passes import Odds, Strength
from mgpp.kernels.pieces import buffers, pieces

SMALLEST = torch.finfo(torch.float32).tiny


def step_(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    means: Sequence[Tensor],
    squares: Sequence[Tensor],
    adam: Adam,
) -> None:
    """Twin: mgpp.functional.adamw.step_."""
    before = torch.full((len(weights),), float(adam.step - 1), dtype=torch.float32).unbind()  # torch counts by itself
    torchs_adamw(
        list(weights),
        list(grads),
        list(means),
        list(squares),
        [],
        list(before),
        fused=True,
        amsgrad=False,
        beta1=adam.beta1,
        beta2=adam.beta2,
        lr=adam.lr,
        weight_decay=adam.weight_decay,
        eps=adam.eps,
        maximize=False,
    )


def shrink_by_prior_(
    weights: Sequence[Tensor],
    second_moments: Sequence[Tensor],
    *,
    scales: Sequence[float],
    corrections: Sequence[float | Tensor],
    eps: Sequence[float],
    slab_prob: float,
    spike_var: float,
    slab_var: float,
    most: float = math.inf,
) -> None:
    """Twin: mgpp.functional.prior.shrink_by_prior_. What is one number for all is multiplied before the weights are."""
    odds = Odds.of(slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var)
    strengths = []
    for scale, correction, floor in zip(scales, corrections, eps, strict=True):
        root = math.sqrt(float(correction))
        slab, spike = scale * root / slab_var, scale * root * (1 / spike_var - 1 / slab_var)
        slab, spike = min(slab, LARGEST / 4), min(spike, LARGEST / 4)  # so that both together are finite
        limit = LARGEST if most == math.inf else min(scale * most, LARGEST)
        strengths.append(Strength(spike=spike, slab=slab, floor=floor * root, limit=limit))
    compiled = passes.compiled()
    if compiled is not None:
        compiled.shrink_(weights, second_moments, strengths, odds)
        return
    room, least = buffers(2, weights), least_size(torch.float32)
    stiffness_of = {strength: Stiffness(odds, strength) for strength in set(strengths)}  # nearly always one
    for weight, moment, strength in zip(weights, second_moments, strengths, strict=True):
        stiffness = stiffness_of[strength]
        lowest = max(SMALLEST, (strength.spike + strength.slab) / LARGEST)  # so that a share is finite
        for w, v, part, spread in pieces(room, weight, moment):
            # A root in two: torch.sqrt may be MKL's, which takes longer than both.
            torch.rsqrt(v, out=spread).reciprocal_().add_(strength.floor)
            if strength.floor < lowest:
                spread.clamp_(min=lowest)
            stiffness(w, out=part).div_(spread)
            size = torch.abs(w, out=spread)
            if strength.limit < LARGEST:
                torch.sub(size, part.mul_(size).clamp_(max=strength.limit), out=part)
            else:
                torch.addcmul(size, part, size, value=-1, out=part)
            torch.maximum(part, size.clamp_(max=least), out=part)
            torch.copysign(part, w, out=w)


FAST = Parts(add_prior_gradient_=add_prior_gradient_, step_=step_, shrink_by_prior_=shrink_by_prior_)
