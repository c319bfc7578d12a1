"""What a weight is worth. Low scores go first. Each function is elementwise, so it can be applied piece by piece."""

from torch import Tensor


def magnitude(weight: Tensor) -> Tensor:
    """|w|."""
    return weight.abs()
