"""N:M groups ranked in one read. Twin: mgpp.functional.groups.

One launch a matrix. A group's members lie side by side, or, where a layer stores inputs × outputs, `width` apart.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from mgpp.functional.structure import Groups
from mgpp.kernels.table import TRITON

BLOCK = 1024  # weights to a program
LARGEST_GROUP = 16  # every member is compared with every other
INFINITY = 0x7F800000  # the key of +inf


@triton.jit
def _key_of(score):
    """Integers in the order of the scores, one for both zeros; NaN is the largest."""
    bits = tl.where(score == 0, 0.0, score).to(tl.int32, bitcast=True)
    key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return tl.where(score != score, 0x7FFFFFFF, key)


@triton.jit(do_not_specialize=["index"])
def _kernel(
    scores, weights, ranked, zeros, lowest, groups, width, index,
    ABS: tl.constexpr, ZERO: tl.constexpr, COUNT: tl.constexpr, MEMBERS: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """Zero each group's COUNT lowest, count what is zero and note the lowest key that stays; or only write the scores,
    +inf where a weight must stay."""
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    member = tl.arange(0, MEMBERS)
    at = (group // width * (MEMBERS * width) + group % width)[:, None] + member[None, :] * width
    inside = (group < groups)[:, None] & (member < MEMBERS)[None, :]
    score = tl.load(scores + at, mask=inside, other=0.0).to(tl.float32)
    if ABS:
        score = tl.abs(score)
    key = _key_of(score)
    first, second = key[:, :, None], key[:, None, :]
    goes_before = (first < second) | ((first == second) & (member[None, :, None] < member[None, None, :]))
    drop = tl.sum(goes_before.to(tl.int32), 1) < COUNT
    if ZERO:
        weight = tl.load(weights + at, mask=inside, other=0.0)
        kept = tl.where(drop, 0.0, weight.to(tl.float32))
        tl.store(weights + at, kept, mask=inside)
        tl.atomic_add(zeros + index, tl.sum(((kept == 0) & inside).to(tl.int32)).to(tl.int64), sem="relaxed")
        tl.atomic_min(lowest, tl.min(tl.where(inside & (drop == 0), key, 0x7F800000)), sem="relaxed")
    else:
        tl.store(ranked + at, tl.where(drop, score, float("inf")), mask=inside)


@dataclass
class Numbers:
    """What an event adds up on the device: each matrix's zeros, and the lowest key that stays."""

    zeros: Tensor
    lowest: Tensor

    @classmethod
    def on(cls, device: torch.device, matrices: int) -> "Numbers":
        return cls(
            torch.zeros(matrices, dtype=torch.int64, device=device),
            torch.full((), INFINITY, dtype=torch.int32, device=device),
        )

    def value(self) -> Tensor:
        """The lowest score that stays, as float64."""
        bits = self.lowest ^ (self.lowest >> 31 & 0x7FFFFFFF)
        return bits.view(torch.float32).double()


def supports(weight: Tensor, score: Tensor, groups: Groups) -> bool:
    """Whole groups of 2, 4, 8 or 16, and two tensors that lie in memory alike, without gaps."""
    return (
        groups.group <= LARGEST_GROUP
        and groups.group & (groups.group - 1) == 0
        and weight.shape[1] % groups.group == 0
        and 0 < weight.numel() < 2**31
        and {weight.dtype, score.dtype} <= TRITON.keys()
        and weight.stride() == score.stride()
        and (weight.is_contiguous() or weight.t().is_contiguous())
    )


def zero_all_(weight: Tensor, score: Tensor, groups: Groups, numbers: Numbers, index: int, *, absolute: bool) -> None:
    """Zero all that may go of matrix `index`. `absolute`: the score is the size of what is given as such."""
    _launch(weight, score, weight, groups, numbers, index, absolute=absolute, zero=True)


def scores_that_may_go(score: Tensor, groups: Groups, *, absolute: bool) -> Tensor:
    """The scores in float32, +inf where a weight must stay, laid out as they were."""
    ranked = torch.empty_like(score, dtype=torch.float32)
    _launch(score, score, ranked, groups, Numbers.on(score.device, 1), 0, absolute=absolute, zero=False)
    return ranked


def _launch(
    weight: Tensor, score: Tensor, ranked: Tensor, groups: Groups, numbers: Numbers, index: int,
    *, absolute: bool, zero: bool,
) -> None:  # fmt: skip
    count = weight.numel() // groups.group
    width = 1 if weight.is_contiguous() else weight.shape[0]
    at_once = BLOCK // groups.group
    _kernel[(triton.cdiv(count, at_once),)](
        score, weight, ranked, numbers.zeros, numbers.lowest, count, width, index,
        ABS=absolute, ZERO=zero, COUNT=groups.group - groups.kept, MEMBERS=groups.group, GROUPS=at_once,
    )  # fmt: skip
