"""Structured selection by the fastest way there is: no copy of all scores but where it says so, and on a GPU no wait.

Blocks: their scores are tensors of their own, fewer by the block's size, so the unstructured selection does the rest.
N:M: on the ramp what may go is selected in the same way, from a copy of the scores; from its end on all that may go
goes, and nothing is searched for. Rows are found by sorting their means, and zeroed in one launch. Matrices are
outputs × inputs, and may be views of ones stored the other way round.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from mgpp import kernels
from mgpp.functional import blocks as plain_blocks
from mgpp.functional import groups as plain_groups
from mgpp.functional import rows as plain_rows
from mgpp.functional.chunks import slabs
from mgpp.functional.mask import mask_smallest_
from mgpp.functional.select import Cut, Score
from mgpp.functional.structure import Blocks, Groups, Structure
from mgpp.kernels import Promise, Scratch
from mgpp.kernels.arriving import Arriving, is_capturing

Inputs = Sequence[Sequence[Tensor]]
Outcome = Cut | Promise | None


def zero_smallest_(
    weights: Sequence[Tensor],
    k: int,
    *,
    structure: Structure,
    score: Score,
    inputs: Inputs,
    kernel: str | None,
    scratch: Scratch,
) -> Outcome:
    """Zero at most k weights of lowest score, in the structure's pattern. `kernel` is None where scores may be negative
    or marked as gone; else as in mgpp.kernels.zero_smallest_."""
    if isinstance(structure, Blocks):
        return zero_blocks_(weights, k, blocks=structure, score=score, inputs=inputs, kernel=kernel, scratch=scratch)
    return zero_in_groups_(weights, k, groups=structure, score=score, inputs=inputs, kernel=kernel, scratch=scratch)


def zero_blocks_(
    weights: Sequence[Tensor],
    k: int,
    *,
    blocks: Blocks,
    score: Score,
    inputs: Inputs,
    kernel: str | None,
    scratch: Scratch,
) -> Outcome:
    """See mgpp.functional.blocks.zero_blocks_."""
    marked = kernel is None
    if not all(blocks.divides((weight.shape[0], weight.shape[1])) for weight in weights):
        return plain_blocks.zero_blocks_(weights, k, blocks=blocks, score=score, inputs=inputs, marked=marked)
    means = [
        plain_blocks.block_scores(weight, *beside, blocks=blocks, score=score, marked=marked).contiguous()
        for weight, beside in zip(weights, inputs, strict=True)
    ]
    count = k // blocks.size
    keeps, taken = _keep_highest(means, count, kernel=kernel, scratch=scratch)
    for weight, keep in zip(weights, keeps, strict=True):
        if weight.device.type == "cpu" and keep.dtype == weight.dtype == torch.float32:
            _multiply_(weight, keep, blocks)
        else:
            plain_blocks.zero_whole_(weight, keep == 0, blocks)
    return _outcome(taken, count * blocks.size, weights)


def zero_in_groups_(
    weights: Sequence[Tensor],
    k: int,
    *,
    groups: Groups,
    score: Score,
    inputs: Inputs,
    kernel: str | None,
    scratch: Scratch,
) -> Outcome:
    """See mgpp.functional.groups.zero_in_groups_."""
    if k == sum(groups.room((weight.shape[0], weight.shape[1])) for weight in weights):
        return _zero_all_(weights, k, groups=groups, score=score, inputs=inputs, kernel=kernel)
    if not weights[0].is_cuda:
        return plain_groups.zero_in_groups_(weights, k, groups=groups, score=score, inputs=inputs)
    return _zero_from_copy_(weights, k, groups=groups, score=score, inputs=inputs, kernel=kernel, scratch=scratch)


def _zero_from_copy_(
    weights: Sequence[Tensor],
    k: int,
    *,
    groups: Groups,
    score: Score,
    inputs: Inputs,
    kernel: str | None,
    scratch: Scratch,
) -> Outcome:
    ranked = [
        _ranked(weight, groups, score, beside, kernel).contiguous()
        for weight, beside in zip(weights, inputs, strict=True)
    ]
    if kernel is not None and all(weight.is_contiguous() for weight in weights):
        inputs = [(score,) for score in ranked]
        return kernels.zero_smallest_(weights, k, score=_itself, inputs=inputs, kernel="input", scratch=scratch)
    keeps, taken = _keep_highest(ranked, k, kernel=kernel, scratch=scratch)
    for weight, keep in zip(weights, keeps, strict=True):
        weight.masked_fill_(keep == 0, 0)
    return _outcome(taken, k, weights)


def _keep_highest(
    scores: Sequence[Tensor], count: int, *, kernel: str | None, scratch: Scratch
) -> tuple[list[Tensor], "Taken | None"]:
    """All but the `count` lowest, as tensors of ones and zeros, and what the selection tells."""
    inputs = [(score,) for score in scores]
    if kernel is None:
        masks = [torch.ones_like(score, dtype=torch.bool) for score in scores]
        return masks, _sent(mask_smallest_(masks, count, score=_itself, inputs=inputs))
    ones = [torch.ones_like(score) for score in scores]
    return ones, kernels.zero_smallest_(ones, count, score=_itself, inputs=inputs, kernel="input", scratch=scratch)


def _itself(_: Tensor, score: Tensor) -> Tensor:
    return score


def _multiply_(weight: Tensor, keep: Tensor, blocks: Blocks) -> None:
    # A fifth of the time that filling by a mask takes on a CPU. A block that goes has a finite mean, so its weights are
    # finite, and + 0.0 makes zeros of the negative zeros.
    by_block = weight.unflatten(0, (-1, blocks.rows)).unflatten(2, (-1, blocks.columns))
    by_block.mul_(keep[:, None, :, None]).add_(0.0)


def _zero_all_(
    weights: Sequence[Tensor], k: int, *, groups: Groups, score: Score, inputs: Inputs, kernel: str | None
) -> Outcome:
    if weights[0].is_cuda and kernels._has_triton() and len({weight.device for weight in weights}) == 1:
        return _zero_all_on_gpu_(weights, k, groups=groups, score=score, inputs=inputs, kernel=kernel)
    if kernel is not None and kernels.cpu.supports(weights):
        return Cut(value=_zero_all_on_cpu_(weights, groups=groups, score=score, inputs=inputs), below=k, ties=0)
    lowest = plain_groups.zero_all_(weights, groups=groups, score=score, inputs=inputs)
    return _outcome(_sent(lowest), k, weights)


def _zero_all_on_gpu_(
    weights: Sequence[Tensor], k: int, *, groups: Groups, score: Score, inputs: Inputs, kernel: str | None
) -> Outcome:
    from mgpp.kernels import groups as fast

    numbers = fast.Numbers.on(weights[0].device, len(weights))
    others = []
    for index, (weight, beside) in enumerate(zip(weights, inputs, strict=True)):
        absolute = kernel == "magnitude"
        found = weight if absolute else score(weight, *beside)
        if fast.supports(weight, found, groups):
            fast.zero_all_(weight, found, groups, numbers, index, absolute=absolute)
        else:
            value = plain_groups.zero_all_([weight], groups=groups, score=score, inputs=[beside])
            numbers.zeros[index] = weight.numel() - weight.count_nonzero()
            others.append(value)
    lowest = _sent(torch.stack([numbers.value(), *others]).min())
    return None if lowest is None else Counted(lowest, k, numbers.zeros)


def _zero_all_on_cpu_(weights: Sequence[Tensor], *, groups: Groups, score: Score, inputs: Inputs) -> float:
    """mgpp.functional.groups.zero_all_ for scores that are not negative: products, where masks are slow on a CPU."""
    lowest = []
    for weight, beside in zip(weights, inputs, strict=True):
        for slab in slabs(1, weight, *beside):
            found = score(*slab)
            drop = plain_groups.may_go(found, groups)
            lowest.append(float(found.add(drop, alpha=torch.finfo(found.dtype).max).min()))
            slab[0].mul_(~drop).add_(0.0)
    return min(lowest)


def _ranked(weight: Tensor, groups: Groups, score: Score, beside: Sequence[Tensor], kernel: str | None) -> Tensor:
    absolute = kernel == "magnitude"
    if weight.is_cuda and kernels._has_triton():
        from mgpp.kernels import groups as fast

        found = weight if absolute else score(weight, *beside)
        if fast.supports(weight, found, groups):
            return fast.scores_that_may_go(found, groups, absolute=absolute)
    return plain_groups.scores_that_may_go(score(weight, *beside), groups)


def zero_rows_(weights: Sequence[Tensor], rows: plain_rows.Rows, *, scratch: Scratch) -> Cut | Promise | None:
    """See mgpp.functional.rows.zero_rows_. The cut counts rows."""
    layout = kernels._laid_out("rows of weights", (weights,), scratch)
    if layout is None:
        plain_rows.zero_rows_(weights, rows.gone)
        return Cut(value=float(rows.cut), below=int(rows.count), ties=0)
    from mgpp.kernels import rows as fast

    zeros = fast.zero_rows_(layout, [weight.shape for weight in weights], rows.gone, scratch)
    return None if is_capturing() else RowsTaken(rows, zeros)


def _outcome(taken: "Taken | None", count: int, weights: Sequence[Tensor]) -> Outcome:
    """What was taken, told in weights; on a GPU it is promised, for nobody waits there."""
    if taken is None:
        return None
    if not weights[0].is_cuda:
        return Cut(value=_value(taken), below=count, ties=0)
    zeros = [weight.numel() - weight.count_nonzero() for weight in weights]
    return Counted(taken, count, torch.stack([zero.to(weights[0].device) for zero in zeros]))


Taken = Cut | Promise | Arriving


def _sent(value: Tensor) -> Arriving | None:
    return None if is_capturing() else Arriving(value.reshape(1))


def _value(taken: Taken) -> float:
    if isinstance(taken, Arriving):
        return float(taken.get()[0])
    return (taken if isinstance(taken, Cut) else taken.cut()).value


class Counted:
    """An event's numbers on their way from the device: the cut as the selection tells it, and the zeros as counted."""

    def __init__(self, taken: Taken, count: int, zeros: Tensor) -> None:
        self._taken, self._count, self._zeros = taken, count, Arriving(zeros)

    def ready(self) -> bool:
        return self._zeros.ready()  # the cut was sent before them

    def cut(self) -> Cut:
        return Cut(value=_value(self._taken), below=self._count, ties=0)

    def zeros(self) -> list[int]:
        return self._zeros.get()


class RowsTaken:
    """An event's numbers on their way from the device."""

    def __init__(self, rows: plain_rows.Rows, zeros: Tensor) -> None:
        self._cut = Arriving(rows.cut.double())
        self._counts = Arriving(torch.cat([rows.count, zeros]))

    def ready(self) -> bool:
        return self._counts.ready()  # the cut was sent before them

    def cut(self) -> Cut:
        return Cut(value=self._cut.get()[0], below=self._counts.get()[0], ties=0)

    def zeros(self) -> list[int]:
        return self._counts.get()[1:]
