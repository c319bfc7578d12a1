"""The launches that zero what lies below the cut, and of the keys equal to it as many as must go.

`select_kernels` has those that find the cut; `mgpp.kernels.select` says how they fit together.
Roles: `weights` are masked; `first` and `second` are what the score is computed from.
"""

import triton
import triton.language as tl

from mgpp.kernels.select_kernels import CUT, LARGEST, STAYED, TIED, TIES, WENT, key_of, score_of
from mgpp.kernels.table import address, find_tensor, part_of, read

# A chunk with ties to be told apart, and from this bit on how many precede it; of chunks there are 2^16 at most.
FROM = 16

_CUT, _TIES, _TIED = tl.constexpr(CUT), tl.constexpr(TIES), tl.constexpr(TIED)
_WENT, _STAYED, _LARGEST = tl.constexpr(WENT), tl.constexpr(STAYED), tl.constexpr(LARGEST)
_FARTHEST, _FROM, _CHUNK = tl.constexpr(0xFFFFFFFF), tl.constexpr(FROM), tl.constexpr((1 << FROM) - 1)
_FROM_TIES, _LISTED = tl.constexpr(FROM + 1), tl.constexpr((2 << FROM) - 1)


@triton.jit
def _mask_block(
    weights, first, second, at, size, factor, cut,
    SCORE: tl.constexpr, SHIFT: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """How many are zero, from bit 16 on how many are equal to the cut, and how far above the cut the nearest keys lie
    (from it on, and below it), as numbers without a sign: those below the cut come last."""
    score = score_of(first, second, at, size, factor, SCORE, MASKED)
    weight = score if SCORE == "magnitude" else read(weights, at, size, MASKED)
    key = key_of(score, SHIFT)
    equal = key == cut
    kept = tl.where(key < cut, 0.0, weight)
    zero = kept == 0
    above = (key - cut).to(tl.uint32, bitcast=True)
    below = above
    if MASKED:
        inside = at < size
        tl.store(weights + at, kept, mask=inside)
        zero &= inside
        equal &= inside
        above, below = tl.where(inside, above, _FARTHEST), tl.where(inside, below, 0)
    else:
        tl.store(weights + at, kept)
    return tl.sum(zero.to(tl.int32) + (equal.to(tl.int32) << 16)), tl.min(above), tl.max(below)


@triton.jit
def mask_kernel(
    weight_table, first_table, second_table, factors, sizes, first_chunk, tensors, chunks, number, base,
    state, zeros, ties_of_chunk,
    WEIGHT: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr, SCORE: tl.constexpr, SHIFT: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    cut = tl.load(state + _CUT).to(tl.int32)
    above, below = tl.full((), _FARTHEST, tl.uint32), tl.zeros((), tl.uint32)
    for index in range(tl.program_id(0), chunks, tl.num_programs(0)):
        chunk = chunks - 1 - index  # from the end on, which has been read last
        tensor = find_tensor(first_chunk, tensors, chunk)
        start, size = part_of(sizes, first_chunk, tensor, chunk, CHUNK)
        weights = address(weight_table, tensor, WEIGHT) + start
        first, second = address(first_table, tensor, FIRST) + start, address(second_table, tensor, SECOND) + start
        factor = tl.load(factors + tensor)
        zero, equal = tl.zeros((), tl.int32), tl.zeros((), tl.int32)
        for offset in range(0, CHUNK, BLOCK):
            at = offset + tl.arange(0, BLOCK)
            if offset + BLOCK <= size:
                both, a, b = _mask_block(weights, first, second, at, size, factor, cut, SCORE, SHIFT, False)
                zero, equal = zero + (both & 0xFFFF), equal + (both >> 16)
                above, below = tl.minimum(above, a), tl.maximum(below, b)
            elif offset < size:
                both, a, b = _mask_block(weights, first, second, at, size, factor, cut, SCORE, SHIFT, True)
                zero, equal = zero + (both & 0xFFFF), equal + (both >> 16)
                above, below = tl.minimum(above, a), tl.maximum(below, b)
        tl.atomic_add(zeros + tl.load(number + tensor), zero.to(tl.int64), sem="relaxed")
        place = tl.load(base + tensor) + chunk - tl.load(first_chunk + tensor)
        tl.store(ties_of_chunk + place, equal.to(tl.int64))
    went = tl.where(below > _LARGEST, cut + below.to(tl.int32, bitcast=True), 0)
    stayed = tl.where(above > _LARGEST, 0, (cut + above.to(tl.int32, bitcast=True)) ^ _LARGEST)
    tl.atomic_max(state + _WENT, went.to(tl.int64), sem="relaxed")
    tl.atomic_max(state + _STAYED, stayed.to(tl.int64), sem="relaxed")


@triton.jit
def scan_kernel(
    state, low_at, ties_of_chunk, chunks, WIDTH: tl.constexpr, FLOOR: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """One program: where the next window and the floor lie, and, if ties go, a list of the chunks with some that do, in
    place of their numbers, with how many precede each. The floor is amid what went and what stayed."""
    went, cut = tl.load(state + _WENT), tl.load(state + _STAYED) ^ _LARGEST
    tl.store(state + _CUT, cut)
    # Never from key 0: zeros are many, and a counter that millions of them hit holds up the device for 50 ms.
    tl.store(low_at, tl.maximum(cut - WIDTH // 2, 1))
    if FLOOR:
        tl.store(low_at + 1, went + (cut - went + 1) // 2)
    ties = tl.load(state + _TIES)
    if ties > 0:
        before, tied = tl.zeros((), tl.int64), tl.zeros((), tl.int64)
        for offset in range(0, chunks, BLOCK):
            chunk = offset + tl.arange(0, BLOCK)
            counts = tl.load(ties_of_chunk + chunk, mask=chunk < chunks, other=0)
            tl.debug_barrier()  # the list may reach what another warp has yet to read
            # One sum for both: how many chunks have some, and from this bit on how many there are.
            both = (counts > 0).to(tl.int64) + (counts << _FROM_TIES)
            sums = before + tl.cumsum(both, 0) - both
            place, preceding = sums & _LISTED, sums >> _FROM_TIES
            some_go = (counts > 0) & (preceding < ties)
            tl.store(ties_of_chunk + place, (preceding << _FROM) + chunk, mask=some_go)
            before += tl.sum(both)
            tied += tl.sum(some_go.to(tl.int64))
        tl.store(state + _TIED, tied)


@triton.jit
def _ties_block(
    weights, first, second, at, size, factor, cut, left, last,
    SCORE: tl.constexpr, SHIFT: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """How many have become zero, and from bit 16 on how many were equal to the cut."""
    score = score_of(first, second, at, size, factor, SCORE, MASKED)
    weight = score if SCORE == "magnitude" else read(weights, at, size, MASKED)
    equal = key_of(score, SHIFT) == cut
    if MASKED:
        equal &= at < size
    drop = equal
    if last:
        drop &= tl.cumsum(equal.to(tl.int32), 0) <= left
    tl.store(weights + at, tl.zeros_like(weight), mask=drop)
    return tl.sum((drop & (weight != 0)).to(tl.int32) + (equal.to(tl.int32) << 16))


@triton.jit
def ties_kernel(
    weight_table, first_table, second_table, factors, sizes, first_chunk, tensors, chunks, number, base,
    state, zeros, ties_of_chunk,
    WEIGHT: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr, SCORE: tl.constexpr, SHIFT: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Zero the first `ties` of the weights whose key is the cut, of which one at least stays: in the chunks listed all,
    in the last of them as many as are left."""
    ties, cut = tl.load(state + _TIES), tl.load(state + _CUT).to(tl.int32)
    tied = tl.load(state + _TIED).to(tl.int32)
    for index in range(tl.program_id(0), tied, tl.num_programs(0)):
        listed = tl.load(ties_of_chunk + index)
        chunk, left = (listed & _CHUNK).to(tl.int32), ties - (listed >> _FROM)
        tensor = find_tensor(base, tensors, chunk)
        start = (chunk - tl.load(base + tensor)).to(tl.int64) * CHUNK
        size = tl.minimum(tl.load(sizes + tensor) - start, CHUNK)
        # A chunk of another launch's tensors lies beyond this tensor's end, or before the first one's start.
        if (start >= 0) & (size > 0):
            weights = address(weight_table, tensor, WEIGHT) + start
            first, second = address(first_table, tensor, FIRST) + start, address(second_table, tensor, SECOND) + start
            factor, last = tl.load(factors + tensor), index == tied - 1
            zero = tl.zeros((), tl.int32)
            for offset in range(0, CHUNK, BLOCK):
                if offset < size:
                    at = offset + tl.arange(0, BLOCK)
                    if offset + BLOCK <= size:
                        both = _ties_block(
                            weights, first, second, at, size, factor, cut, left, last, SCORE, SHIFT, False
                        )
                    else:
                        both = _ties_block(
                            weights, first, second, at, size, factor, cut, left, last, SCORE, SHIFT, True
                        )
                    zero += both & 0xFFFF
                    left -= both >> 16
            tl.atomic_add(zeros + tl.load(number + tensor), zero.to(tl.int64), sem="relaxed")


@triton.jit
def forget_kernel(
    counters, told, window, COUNTERS: tl.constexpr, TOLD: tl.constexpr, WINDOW: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Tell what is to be told, and make ready for a count."""
    for offset in range(tl.program_id(0) * BLOCK, WINDOW, tl.num_programs(0) * BLOCK):
        tl.store(window + offset + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.int64))
    for offset in range(tl.program_id(0) * BLOCK, COUNTERS, tl.num_programs(0) * BLOCK):
        place = offset + tl.arange(0, BLOCK)
        tl.store(told + place, tl.load(counters + place, mask=place < TOLD, other=0), mask=place < TOLD)
        tl.store(counters + place, tl.zeros((BLOCK,), tl.int64), mask=place < COUNTERS)
