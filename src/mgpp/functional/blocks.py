"""Selection of whole blocks: those of lowest mean score, over all matrices together.

The mean, not the sum: blocks at a ragged edge are smaller, and it is weights that are counted. It also leaves the cut
on the scale of one weight's score, where the prior's half-width lies. Scores that estimate a change of the loss add up
(sensitivities, saliencies), so among whole blocks the lowest mean is the lowest sum of changes; for |w| it is the mean
magnitude.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from mgpp.functional.chunks import chunks, slabs
from mgpp.functional.select import Cut, Score, find_cut
from mgpp.functional.structure import Blocks


def block_scores(weight: Tensor, *beside: Tensor, blocks: Blocks, score: Score, marked: bool = True) -> Tensor:
    """One number a block: the mean of `score(weight, *beside)`, in float32 at least.

    `marked`: the lowest number there is, or -inf, marks a weight that is gone. It counts as worth nothing, so that one
    zero does not condemn its neighbours; a block that is gone as a whole is marked itself.
    """
    means = [_means(score(*slab), blocks, marked) for slab in slabs(blocks.rows, weight, *beside)]
    if not means:
        return weight.new_empty(*grid_of(weight, blocks), dtype=torch.float32)
    return torch.cat(means) if len(means) > 1 else means[0]


def zero_blocks_(
    weights: Sequence[Tensor],
    k: int,
    *,
    blocks: Blocks,
    score: Score,
    inputs: Sequence[Sequence[Tensor]],
    marked: bool = True,
) -> Cut:
    """Zero blocks of lowest mean score, ties by position, until the next would be more than k weights.

    The cut counts weights; its value is the score of the first block that stays.
    """
    pairs = zip(weights, inputs, strict=True)
    means = [block_scores(weight, *beside, blocks=blocks, score=score, marked=marked) for weight, beside in pairs]
    sizes = [block_sizes(weight, blocks) for weight in weights]

    def each_weights_score() -> Iterable[Tensor]:
        for mean, size in zip(means, sizes, strict=True):
            for scores, counts in chunks(mean.flatten(), size.flatten()):
                yield scores.repeat_interleave(counts)

    cut = find_cut(each_weights_score, k, dtype=common_dtype(means))
    room, ties = cut.ties, 0
    for weight, mean, size in zip(weights, means, sizes, strict=True):
        equal = mean == cut.value
        fits = equal & (size.where(equal, 0).flatten().cumsum(0).view(size.shape) <= room)
        zero_whole_(weight, (mean < cut.value) | fits, blocks)
        fitted = int(size[fits].sum())
        ties += fitted
        room = room - fitted if torch.equal(fits, equal) else 0
    return Cut(value=cut.value, below=cut.below, ties=ties)


def zero_whole_(weight: Tensor, gone: Tensor, blocks: Blocks) -> None:
    """Zero the weights of the blocks that are `gone`, a grid of one truth a block."""
    if blocks.divides((weight.shape[0], weight.shape[1])):
        by_block = weight.unflatten(0, (-1, blocks.rows)).unflatten(2, (-1, blocks.columns))
        by_block.masked_fill_(gone[:, None, :, None], 0)
        return
    columns = gone.repeat_interleave(blocks.columns, 1)[:, : weight.shape[1]]
    for row in range(gone.shape[0]):
        weight[row * blocks.rows : (row + 1) * blocks.rows].masked_fill_(columns[row], 0)


def grid_of(weight: Tensor, blocks: Blocks) -> tuple[int, int]:
    """How many blocks there are below and beside each other."""
    return -(-weight.shape[0] // blocks.rows), -(-weight.shape[1] // blocks.columns)


def block_sizes(weight: Tensor, blocks: Blocks) -> Tensor:
    """How many weights each block has: fewer at the edges where the matrix is no multiple."""
    rows, columns = (
        torch.full((count,), size, device=weight.device)
        for count, size in zip(grid_of(weight, blocks), (blocks.rows, blocks.columns), strict=True)
    )
    if rows.numel():
        rows[-1] -= rows.sum() - weight.shape[0]
    if columns.numel():
        columns[-1] -= columns.sum() - weight.shape[1]
    return torch.outer(rows, columns)


def common_dtype(tensors: Sequence[Tensor]) -> torch.dtype:
    dtype = tensors[0].dtype
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def _means(score: Tensor, blocks: Blocks, marked: bool) -> Tensor:
    wide = torch.promote_types(score.dtype, torch.float32)
    size = blocks.size if blocks.divides((score.shape[0], score.shape[1])) else block_sizes(score, blocks)
    if not marked:
        return _sums(score.to(wide), blocks) / size
    gone = score <= torch.finfo(score.dtype).min
    means = _sums(score.to(wide).masked_fill(gone, 0), blocks) / size
    return means.masked_fill_(_sums((~gone).to(wide), blocks) == 0, torch.finfo(wide).min)


def _sums(numbers: Tensor, blocks: Blocks) -> Tensor:
    # Rows first: that sum runs along memory, and leaves fewer numbers for the other.
    return _folded(_folded(numbers, blocks.rows, 0), blocks.columns, 1)


def _folded(numbers: Tensor, size: int, dim: int) -> Tensor:
    """Sums of every `size` numbers along `dim`, and of those that are left over."""
    length = numbers.shape[dim]
    if size == 1 or length == 0:
        return numbers
    whole = length // size * size
    parts = []
    if whole:
        parts.append(numbers.narrow(dim, 0, whole).unflatten(dim, (-1, size)).sum(dim + 1))
    if whole < length:
        parts.append(numbers.narrow(dim, whole, length - whole).sum(dim, keepdim=True))
    return torch.cat(parts, dim) if len(parts) > 1 else parts[0]
