"""Exact global selection: the k smallest scores over many tensors, without copying or sorting them.

A float's bits, read as an integer, order like the float. So the cut is found digit by digit: count how many scores
have each leading digit, step into the digit that holds the cut, and go on with the next. Only histograms are
kept, and histograms of shards add up: summed over ranks, they select over all ranks.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import Tensor

from mgpp.functional.chunks import chunks
from mgpp.functional.ranks import ALONE, Ranks
from mgpp.functional.score import magnitude

Score = Callable[..., Tensor]

DIGIT_BITS = 11  # 2,048 counters: they stay in cache, and a float32 takes three passes

_INTEGER = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.bfloat16: torch.int16,
    torch.float16: torch.int16,
}


@dataclass(frozen=True)
class Cut:
    """The smallest score that stays, `value`, and how many go: the `below` scores under it and the first `ties`, in
    position order, of those equal to it."""

    value: float
    below: int
    ties: int

    @property
    def count(self) -> int:
        return self.below + self.ties


def find_cut(
    scores: Callable[[], Iterable[Tensor]],
    k: int,
    *,
    dtype: torch.dtype,
    ranks: Ranks = ALONE,
) -> Cut:
    """The cut under which exactly k of all scores lie, over all ranks; NaN counts as the largest.

    `scores()` walks over this rank's scores and is called once a pass; they are compared as `dtype`, to which they must
    convert exactly.
    """
    width = torch.iinfo(_INTEGER[dtype]).bits
    prefix, below, resolved = 0, 0, 0
    while resolved < width:
        bits = min(DIGIT_BITS, width - resolved)
        resolved += bits
        counts = torch.zeros(1 << bits, dtype=torch.int64)
        count = partial(_count_digits, dtype=dtype, prefix=prefix, shift=width - resolved, bits=bits)
        for found in map(count, scores()):  # none of which is kept while the next is made
            counts += found.to(counts.device)
        ranks.sum_(counts)
        up_to = counts.cumsum(0)
        if not 0 <= k - below < int(up_to[-1]):
            raise ValueError(f"k={k}: between 0 and {below + int(up_to[-1]) - 1}, so that one score at least stays")
        chosen = int(torch.searchsorted(up_to, k - below, right=True))
        below += int(up_to[chosen] - counts[chosen])
        prefix = prefix << bits | chosen
    return Cut(value=_value_of(prefix, dtype), below=below, ties=k - below)


def order_key(score: Tensor) -> Tensor:
    """Signed integers in the order of the scores: negative floats have their magnitude bits flipped."""
    key = (score + 0.0).view(_INTEGER[score.dtype])  # + 0.0: -0.0 and 0.0 are one score
    limits = torch.iinfo(key.dtype)
    key.bitwise_xor_((key >> limits.bits - 1).bitwise_and_(limits.max))
    return key.masked_fill_(score.isnan(), _no_number(score.dtype))  # last: in bfloat16 a sum may turn NaN's sign


@cache
def _no_number(dtype: torch.dtype) -> int:
    """The key next to infinity's: NaN, whatever its bits, is one score, and the largest."""
    return int(torch.tensor(math.inf, dtype=dtype).view(_INTEGER[dtype])) + 1


def zero_smallest_(
    weights: Sequence[Tensor],
    k: int,
    *,
    score: Score = magnitude,
    inputs: Sequence[Sequence[Tensor]] | None = None,
    ranks: Ranks = ALONE,
) -> Cut:
    """Zero the k weights of smallest score, over all tensors and ranks together, ties by position. Returns the cut.

    `score(weight, *inputs)` is elementwise; `inputs[i]` are the tensors it needs beside `weights[i]`.
    """
    dtype = score_dtype(weights, score, inputs)

    def walk() -> Iterable[Tensor]:
        for weight, beside in _pairs(weights, inputs):
            for piece in chunks(weight, *beside):
                yield score(*piece)

    cut = find_cut(walk, k, dtype=dtype, ranks=ranks)
    zero_below_(weights, cut, score=score, inputs=inputs, ranks=ranks)
    return cut


def zero_below_(
    weights: Sequence[Tensor],
    cut: Cut,
    *,
    score: Score = magnitude,
    inputs: Sequence[Sequence[Tensor]] | None = None,
    ranks: Ranks = ALONE,
) -> None:
    """Zero the weights that the cut takes: those that score under it, and the first of those that equal it."""
    # Against a bfloat16 tensor torch would round the cut to bfloat16 first.
    dtype = score_dtype(weights, score, inputs)
    ties = cut.ties
    mine = None
    if ties and ranks.size > 1:
        mine = ranks.take_first(_count_equal(weights, cut, dtype, score, inputs), ties)
    for i, (weight, beside) in enumerate(_pairs(weights, inputs)):
        ties = ties if mine is None else mine[i]
        for piece in chunks(weight, *beside):
            drop, ties = below_cut(score(*piece).to(dtype), cut, ties)
            piece[0].masked_fill_(drop, 0)


def _count_equal(
    weights: Sequence[Tensor],
    cut: Cut,
    dtype: torch.dtype,
    score: Score,
    inputs: Sequence[Sequence[Tensor]] | None,
) -> Tensor:
    """How many of each tensor's scores equal the cut."""
    counts = []
    for weight, beside in _pairs(weights, inputs):
        found = torch.zeros((), dtype=torch.int64, device=weight.device)
        for piece in chunks(weight, *beside):
            found += torch.count_nonzero(score(*piece).to(dtype) == cut.value)
        counts.append(found.cpu())
    return torch.stack(counts)


def below_cut(score: Tensor, cut: Cut, ties: int) -> tuple[Tensor, int]:
    """Which of these scores go, and how many ties are left to take after them."""
    drop = score < cut.value
    if ties == 0:
        return drop, 0
    equal = score == cut.value
    found = int(equal.count_nonzero())
    if found > ties:
        flat = equal.flatten()
        flat[bisect_left(range(len(flat)), ties, key=lambda end: int(flat[:end].count_nonzero())) :] = False
        equal = flat.view(equal.shape)
    return drop.logical_or_(equal), ties - min(found, ties)


def _pairs(
    weights: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]] | None
) -> Iterable[tuple[Tensor, Sequence[Tensor]]]:
    return zip(weights, inputs if inputs is not None else [()] * len(weights), strict=True)


def score_dtype(weights: Sequence[Tensor], score: Score, inputs: Sequence[Sequence[Tensor]] | None) -> torch.dtype:
    """The dtype in which all scores compare exactly (float32 for a mix of the two half precisions)."""
    dtype = None
    for weight, beside in _pairs(weights, inputs):
        empty = score(weight.new_empty(0), *(_nothing_of(tensor) for tensor in beside))
        dtype = empty.dtype if dtype is None else torch.promote_types(dtype, empty.dtype)
    assert dtype is not None, "no weights to select from"
    return dtype


def _nothing_of(tensor: Tensor) -> Tensor:
    """One number stays as it is: it may lie on the CPU beside weights that do not."""
    return tensor.new_empty(0) if tensor.dim() else tensor


def _count_digits(score: Tensor, *, dtype: torch.dtype, prefix: int, shift: int, bits: int) -> Tensor:
    """How many scores have each digit, 0 .. 2^bits - 1, in the `bits` bits next to `prefix`, of those that have that.

    The others are counted too, as one digit below and one above: to leave them out would take more time and memory.
    """
    digit = order_key(score.to(dtype)).flatten()
    # Signed keys start at -2^(width - 1); the outermost are no number's, so one below and one above have room.
    low = (prefix << bits) - (1 << torch.iinfo(digit.dtype).bits - shift - 1)
    digit.bitwise_right_shift_(shift).clamp_(low - 1, low + (1 << bits)).sub_(low - 1)
    return torch.bincount(digit, minlength=(1 << bits) + 2)[1:-1]


def _value_of(prefix: int, dtype: torch.dtype) -> float:
    integer = _INTEGER[dtype]
    width = torch.iinfo(integer).bits
    key = torch.tensor(prefix - (1 << width - 1), dtype=integer)
    bits = key ^ (key >> (width - 1) & torch.iinfo(integer).max)
    return float(bits.view(dtype))
