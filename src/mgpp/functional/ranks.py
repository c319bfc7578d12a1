"""Tensors whose parts lie with several processes: what is counted of the parts adds up to what is true of the whole."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


def _alone(counts: Tensor) -> None:
    return


@dataclass(frozen=True)
class Ranks:
    """The processes that hold the parts. A tensor's parts, in the order of the ranks, are its elements in order.

    `sum_` adds up an int64 tensor of counts over all ranks, in place: all of them must call it, as often and with as
    many counts.
    """

    rank: int = 0
    size: int = 1
    sum_: Callable[[Tensor], object] = _alone

    def take_first(self, found: Tensor, wanted: int) -> list[int]:
        """Of the `wanted` first over all tensors: how many this rank takes from its part of each.

        `found` has one count for each tensor, of this rank's part alone. A tensor's parts come in the order of the
        ranks, before the next tensor's.
        """
        table = torch.zeros(found.numel(), self.size, dtype=torch.int64)
        table[:, self.rank] = found
        self.sum_(table)
        before = (table.flatten().cumsum(0) - table.flatten()).view_as(table)[:, self.rank]
        return torch.minimum((wanted - before).clamp_(min=0), table[:, self.rank]).tolist()


ALONE = Ranks()
