"""AdamW and the decoupled prior on a CPU: torch's own fused step, and the shrinking in one pass (passes.py) or few."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adamw import adamw as torchs_adamw

from mgpp.functional.adamw import Adam, Parts
from mgpp.functional.prior import least_size, log_odds
from mgpp.kernels import passes
from mgpp.kernels.cpu import LARGEST, Stiffness, add_prior_gradient_
from mgpp.kernels.passes import Strength
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
    c1, c2 = log_odds(slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var)
    strengths = []
    for scale, correction, floor in zip(scales, corrections, eps, strict=True):
        root = math.sqrt(float(correction))
        slab = min(scale * root / slab_var, LARGEST)
        spike = min(scale * root * (1 / spike_var - 1 / slab_var), LARGEST)
        limit = LARGEST if most == math.inf else min(scale * most, LARGEST)
        strengths.append(Strength(spike=spike, slab=slab, floor=floor * root, limit=limit))
    compiled = passes.compiled()
    if compiled is not None:
        compiled.shrink_(weights, second_moments, strengths, (c1, c2))
        return
    room, least = buffers(2, weights), least_size(torch.float32)
    stiffness_of = {strength: Stiffness(c1, c2, strength) for strength in set(strengths)}  # nearly always one
    for weight, moment, strength in zip(weights, second_moments, strengths, strict=True):
        stiffness = stiffness_of[strength]
        for w, v, part, spread in pieces(room, weight, moment):
            # A root in two: torch.sqrt may be MKL's, which takes longer than both.
            torch.rsqrt(v, out=spread).reciprocal_().add_(strength.floor)
            if strength.floor < SMALLEST:
                spread.clamp_(min=SMALLEST)
            stiffness(w, out=part).div_(spread).clamp_(max=1)
            # A weight that is not zero stays so: `least` of it, which is nothing beside a larger one.
            rest = torch.clamp(w, -least, least, out=spread)
            if strength.limit < LARGEST:
                w.sub_(part.mul_(w).clamp_(-strength.limit, strength.limit)).add_(rest)
            else:
                w.lerp_(rest, part)


FAST = Parts(add_prior_gradient_=add_prior_gradient_, step_=step_, shrink_by_prior_=shrink_by_prior_)
