"""The mixture Gaussian prior   π(w) = λ N(0, σ1²) + (1-λ) N(0, σ0²)   and what follows from it.

λ is `slab_prob`, σ0² is `spike_var` (tiny), σ1² is `slab_var` (wide); both are variances.
Every function takes the three by name, so that a call reads like the paper.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mgpp.functional.chunks import chunks


def log_odds(*, slab_prob: float, spike_var: float, slab_var: float) -> tuple[float, float]:
    """(c1, c2) of the paper: log P(slab|w) - log P(spike|w) = c2·w² + c1."""
    # log1p, not log(1 - λ): for λ under 1e-16 the difference is 1 and its log loses λ altogether.
    c1 = math.log(slab_prob) - math.log1p(-slab_prob) + 0.5 * (math.log(spike_var) - math.log(slab_var))
    c2 = 0.5 / spike_var - 0.5 / slab_var
    return c1, c2


def log_prior(weight: Tensor, *, slab_prob: float, spike_var: float, slab_var: float) -> Tensor:
    """log π(w), by the log-sum-exp of the two components: the densities themselves underflow."""

    def log_normal(var: float) -> Tensor:
        return -0.5 * weight.square() / var - 0.5 * math.log(2 * math.pi * var)

    return torch.logaddexp(
        math.log(slab_prob) + log_normal(slab_var),
        math.log1p(-slab_prob) + log_normal(spike_var),
    )


def prior_density(weight: Tensor, *, slab_prob: float, spike_var: float, slab_var: float) -> Tensor:
    """π(w)   (Eq. 2)."""
    return log_prior(weight, slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var).exp()


def spike_probability(weight: Tensor, *, slab_prob: float, spike_var: float, slab_var: float) -> Tensor:
    """g(w) = 1 / (exp(c2·w² + c1) + 1): the probability that w came from the spike."""
    c1, c2 = log_odds(slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var)
    # A sigmoid of the log-odds: the densities overflow float32 once |w| is a few hundred spike widths.
    return weight.square().mul_(c2).add_(c1).neg_().sigmoid_()


def prior_gradient(weight: Tensor, *, slab_prob: float, spike_var: float, slab_var: float) -> Tensor:
    """Gradient of -log prior: w/σ0² · g + w/σ1² · (1 - g)   (Eq. 4).

    Half-precision weights are worked in float32 and returned so: 1/σ0² is past float16's range.
    Finite for every finite weight: a value past the dtype's range is that range's end.
    """
    pull = prior_stiffness(weight, slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var)
    largest = torch.finfo(pull.dtype).max
    return pull.mul_(weight).clamp_(-largest, largest)


def prior_stiffness(weight: Tensor, *, slab_prob: float, spike_var: float, slab_var: float) -> Tensor:
    """g/σ0² + (1-g)/σ1²: the prior's gradient at w is this times w. In float32 for half-precision weights."""
    weight = weight if weight.dtype == torch.float64 else weight.float()
    in_spike = spike_probability(weight, slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var)
    # Gathered around g: one multiplication and one addition a weight.
    return in_spike.mul_(1 / spike_var - 1 / slab_var).add_(1 / slab_var)


def add_prior_gradient_(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    *,
    scale: float | Tensor,
    slab_prob: float,
    spike_var: float,
    slab_var: float,
) -> None:
    """grad += scale · (-∇ log π(w)) for every pair, in place, piece by piece."""
    for weight, grad in zip(weights, grads, strict=True):
        for w, g in chunks(weight, grad):
            g.add_(prior_gradient(w, slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var).mul_(scale))


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
    """w ← w · (1 - min(1, scale · [g/σ0² + (1-g)/σ1²] / (√v̂ + ε))),  v̂ = v / correction, in place.

    The prior decoupled from an adaptive optimizer's moments, as weight decay is in AdamW: `scale` is lr·η/n, and v is
    the second moment of the loss's gradient alone. `scales`, `corrections` and `eps` are one number a tensor. No weight
    moves by more than scale · `most`.
    """
    per_tensor = zip(weights, second_moments, scales, corrections, eps, strict=True)
    for weight, second_moment, scale, correction, floor in per_tensor:
        least = least_size(weight.dtype)
        for w, v in chunks(weight, second_moment):
            pull = prior_stiffness(w, slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var).mul_(scale)
            # clamp: 0/0 where a weight has had no gradient yet and ε is 0.
            pull.div_(v.to(pull.dtype).div(correction).sqrt_().add_(floor).clamp_(min=torch.finfo(pull.dtype).tiny))
            size = w.abs().to(pull.dtype)
            if most < math.inf:
                limit = size.clamp(min=torch.finfo(pull.dtype).tiny).reciprocal_().mul_(scale * most)
                torch.minimum(pull, limit, out=pull)
                del limit
            shrunk = pull.clamp_(max=1).neg_().add_(1).mul_(size)
            # A weight that is not zero stays so, however small: only pruning makes zeros, and so their count is exact.
            w.copy_(torch.maximum(shrunk, size.clamp_(max=least), out=shrunk).copysign_(w))
            del pull, shrunk, size  # they would lie beside the next piece's


def least_size(dtype: torch.dtype) -> float:
    """The size under which the decoupled prior shrinks no weight.

    It is nothing beside one step, and in float32 its square is not subnormal: such numbers some processors flush to
    zero, and others take ten times as long for.
    """
    return 6e-8 if dtype == torch.float16 else 1e-12


def half_width(*, slab_prob: float, spike_var: float, slab_var: float) -> float:
    """|w| at which spike and slab are equally likely: √2 σ0σ1/√(σ1²-σ0²) · √log((1-λ)/λ · σ1/σ0).

    Prior annealing prunes what lies inside it. 0 where the slab is the likelier even at w = 0.
    """
    c1, c2 = log_odds(slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var)
    return math.sqrt(max(0.0, -c1) / c2)
