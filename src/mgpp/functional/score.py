"""What a weight is worth. Low scores go first. Each function is elementwise, so it can be applied piece by piece."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mgpp.functional.chunks import chunks


def magnitude(weight: Tensor) -> Tensor:
    """|w|."""
    return weight.abs()


def curvature(weight: Tensor, second_moment: Tensor, correction: Tensor) -> Tensor:
    """|w|·√v̂,  v̂ = v / correction: the second moment of w's gradient estimates the diagonal of the Fisher matrix.

    Only a zero scores 0, a weight without curvature the least there is above it: of k that go, all zeros are among the
    first, so that k is how many are zero afterwards.
    """
    wide = torch.promote_types(weight.dtype, torch.float32)
    limits = torch.finfo(wide)
    # clamp: the square of a large gradient may be inf, and a zero times that would be NaN, the last to go.
    root = _root_(second_moment.to(wide).div(correction)).clamp_(max=limits.max)
    size = weight.abs().to(wide)
    score = root * size
    return torch.maximum(score, size.clamp_(max=limits.tiny), out=score)


def _root_(numbers: Tensor) -> Tensor:
    """√, rounded right, so that it is the same on every machine. Of float32 torch's own, where MKL takes it, is off by
    one in the last place for a sixth of all numbers."""
    if numbers.device.type != "cpu":
        return numbers.sqrt_()
    return numbers.copy_(numbers.double().sqrt_())


def sensitivity(weight: Tensor, grad: Tensor) -> Tensor:
    """I = |w·∂L/∂w|: to first order, how much the loss changes if w goes."""
    return (weight * grad).abs_()


def uncertain_sensitivity(smoothed: Tensor, uncertainty: Tensor) -> Tensor:
    """Ī·Ū: a weight stays if it matters, or if it is not yet known whether it does."""
    return smoothed * uncertainty


def observe_sensitivity_(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    windows: Sequence[Tensor],
    smoothed: Sequence[Tensor],
    uncertainties: Sequence[Tensor] | None = None,
    *,
    t: int,
    every: int,
    beta1: float,
    beta2: float = 0.0,
) -> None:
    """Take the sensitivity I of step t into its moments, in place, piece by piece.

    Inside a window of `every` steps Ipt is I's running mean, Ipt ← (Ipt·l + I)/(l + 1), l = t mod every. At its end
    Ī ← β1 Ī + (1-β1) Ipt, then Ū ← β2 Ū + (1-β2) |Ipt - Ī| with the new Ī, then Ipt ← I. `uncertainties` may be left
    out by who wants Ī alone.
    """
    moments = [windows, smoothed] if uncertainties is None else [windows, smoothed, uncertainties]
    inside = t % every
    for tensors in zip(weights, grads, *moments, strict=True):
        for weight, grad, window, mean, *spread in chunks(*tensors):
            now = sensitivity(weight.to(window.dtype), grad)
            if inside:
                window.mul_(inside).add_(now).div_(inside + 1)
                continue
            mean.mul_(beta1).add_(window, alpha=1 - beta1)
            for deviation in spread:
                deviation.mul_(beta2).add_((window - mean).abs_(), alpha=1 - beta2)
            window.copy_(now)
