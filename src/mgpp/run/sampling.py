"""Batches of rows of like length: less padding, at the price of a less random order."""

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler

MEGABATCH = 50


class LengthGrouped(Sampler[int]):
    """A new order every epoch: shuffled, then sorted by length within each stretch of MEGABATCH batches.

    The order follows from (seed, epoch) alone. transformers' own LengthGroupedSampler draws it from the global random
    state, which a run resumed in the middle of an epoch does not have any more.
    """

    def __init__(self, lengths: Sequence[int], *, batch_size: int, seed: int) -> None:
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(len(self.lengths), generator=generator).tolist()
        stretch = MEGABATCH * self.batch_size
        batches: list[list[int]] = []
        for start in range(0, len(order), stretch):
            alike = sorted(order[start : start + stretch], key=lambda row: -self.lengths[row])
            batches += [alike[i : i + self.batch_size] for i in range(0, len(alike), self.batch_size)]
        # Only whole batches change places: a short one in the middle would shift all that follow it.
        whole = [batch for batch in batches if len(batch) == self.batch_size]
        rest = [batch for batch in batches if len(batch) < self.batch_size]
        for number in torch.randperm(len(whole), generator=generator).tolist():
            yield from whole[number]
        for batch in rest:
            yield from batch
