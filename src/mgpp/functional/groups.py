"""N:M selection: every group of M inputs keeps its N highest; on the way there the lowest of all go first.

Only weights that are not among their group's N highest may go. Of those the lowest k of all matrices together go, so
every event's zeros fit the pattern, and when all that may go are gone it is met everywhere.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from mgpp.functional.chunks import slabs
from mgpp.functional.select import Cut, Score, below_cut, find_cut, score_dtype
from mgpp.functional.structure import Groups


def may_go(score: Tensor, groups: Groups) -> Tensor:
    """True but for the `kept` highest of every group along the rows. Of equal scores the first may go first."""
    columns = score.shape[1]
    whole = columns // groups.group * groups.group
    parts = []
    if whole:
        parts.append(_lowest(score[:, :whole].unflatten(1, (-1, groups.group)), groups.group - groups.kept))
    if whole < columns:
        parts.append(_lowest(score[:, whole:].unsqueeze(1), columns - whole - groups.kept))
    flat = [part.flatten(1) for part in parts]
    return torch.cat(flat, 1) if len(flat) > 1 else flat[0]


def _lowest(score: Tensor, count: int) -> Tensor:
    """Which are the `count` lowest along the last dimension; NaN counts as the largest."""
    if count <= 0:
        return torch.zeros_like(score, dtype=torch.bool)
    # Members apart from each other: whole planes are compared, and nothing is sorted.
    planes = score.nan_to_num(float("inf"), float("inf"), -float("inf")).movedim(-1, 0).contiguous()
    before = torch.zeros_like(planes, dtype=torch.int8 if len(planes) < 128 else torch.int16)
    for distance in range(1, len(planes)):
        first_goes = (planes[:-distance] <= planes[distance:]).view(torch.int8)
        before[distance:] += first_goes
        before[:-distance] += 1 - first_goes
    return (before < count).movedim(0, -1)


def scores_that_may_go(score: Tensor, groups: Groups) -> Tensor:
    """The scores, +inf where a weight must stay."""
    return score.where(may_go(score, groups), float("inf"))


def zero_in_groups_(
    weights: Sequence[Tensor], k: int, *, groups: Groups, score: Score, inputs: Sequence[Sequence[Tensor]]
) -> Cut:
    """Zero the k lowest of the weights that may go, over all matrices together, ties by position.

    The cut is the lowest score that stays of those that may go; when none is left, the lowest that stays.
    """
    if k == sum(groups.room((weight.shape[0], weight.shape[1])) for weight in weights):
        return Cut(value=float(zero_all_(weights, groups=groups, score=score, inputs=inputs)), below=k, ties=0)

    def walk() -> Iterator[tuple[Tensor, Tensor]]:
        for weight, beside in zip(weights, inputs, strict=True):
            for slab in slabs(1, weight, *beside):
                yield slab[0], scores_that_may_go(score(*slab), groups)

    def scores() -> Iterable[Tensor]:
        return (found for _, found in walk())

    dtype = score_dtype(weights, score, inputs)
    cut = find_cut(scores, k, dtype=dtype)
    ties = cut.ties
    for piece, found in walk():
        drop, ties = below_cut(found.to(dtype), cut, ties)
        piece.masked_fill_(drop, 0)
    return cut


def zero_all_(weights: Sequence[Tensor], *, groups: Groups, score: Score, inputs: Sequence[Sequence[Tensor]]) -> Tensor:
    """Zero all that may go; returns the lowest score that stays, on the first weight's device."""
    lowest = []
    for weight, beside in zip(weights, inputs, strict=True):
        for slab in slabs(1, weight, *beside):
            found = score(*slab)
            drop = may_go(found, groups)
            lowest.append(found.where(~drop, float("inf")).min().double())
            slab[0].masked_fill_(drop, 0)
    return torch.stack([value.to(weights[0].device) for value in lowest]).min()
