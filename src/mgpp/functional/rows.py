"""Whole rows that go: those of lowest mean score, over all matrices together."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """Which rows go, matrix after matrix, how many they are, and the lowest mean that stays: all on the device."""

    gone: Tensor
    count: Tensor
    cut: Tensor


def lowest_rows(means: Sequence[Tensor], widths: Sequence[int], asked: int) -> Rows:
    """The fewest rows of lowest mean, ties by position, that have at least `asked` weights.

    `means` has a number for every row of a matrix, `widths` how many weights a row has. No number is read by the host.
    """
    device = means[0].device
    each = [torch.full(mean.shape, width, device=device) for mean, width in zip(means, widths, strict=True)]
    ranked, order = torch.cat([mean.to(device) for mean in means]).sort(stable=True)
    zeros = torch.cat(each)[order].cumsum(0)
    count = (torch.searchsorted(zeros, max(asked, 0)) + int(asked > 0)).view(1)
    place = torch.arange(len(order), device=device)
    gone = torch.empty_like(order, dtype=torch.bool).scatter_(0, order, place < count)
    return Rows(gone, count, ranked.gather(0, count.clamp(max=len(order) - 1)))


def zero_rows_(weights: Sequence[Tensor], gone: Tensor) -> None:
    """Zero the rows that are `gone`, which has a truth for every row, matrix after matrix."""
    for weight, rows in zip(weights, gone.split([weight.shape[0] for weight in weights]), strict=True):
        weight.masked_fill_(rows.to(weight.device).unsqueeze(1), 0)
