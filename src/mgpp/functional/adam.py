"""Adam for numbers that no optimizer of the user's holds."""

from torch import Tensor


def adam_(
    value: Tensor,
    grad: Tensor,
    mean: Tensor,
    square: Tensor,
    *,
    t: int,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
) -> None:
    """Step t, counted from 1, of Adam on `value`; `mean` and `square` are its moments. All in place."""
    beta1, beta2 = betas
    mean.lerp_(grad, 1 - beta1)
    square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    spread = (square / (1 - beta2**t)).sqrt_().add_(eps)
    value.addcdiv_(mean, spread, value=-lr / (1 - beta1**t))
