"""The launches that zero what lies below the cut, and of the keys equal to it as many as must go.

`select_kernels` has those that find the cut; `mgpp.kernels.select` says how they fit together.
Roles: `weights` are masked; `first` and `second` are what the score is computed from.
"""

import triton
import triton.language as tl

from mgpp.kernels.select_kernels import CUT, EQUAL, LARGEST, STAYED, TIES, WENT, key_of, score_of
from mgpp.kernels.table import address, find_tensor, read

_CUT, _TIES, _EQUAL = tl.constexpr(CUT), tl.constexpr(TIES), tl.constexpr(EQUAL)
_WENT, _STAYED, _LARGEST = tl.constexpr(WENT), tl.constexpr(STAYED), tl.constexpr(LARGEST)


@triton.jit
def _mask_block(
    weights, first, second, at, size, factor, cut, all_ties,
    SCORE: tl.constexpr, SHIFT: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    score = score_of(first, second, at, size, factor, SCORE, MASKED)
    weight = score if SCORE == "magnitude" else read(weights, at, size, MASKED)
    key = key_of(score, SHIFT)
    equal = key == cut
    kept = tl.where((key < cut) | (equal & all_ties), 0.0, weight)
    zero = kept == 0
    if MASKED:
        inside = at < size
        tl.store(weights + at, kept, mask=inside)
        zero &= inside
        equal &= inside
    else:
        tl.store(weights + at, kept)
        inside = at >= 0
    went = tl.where(inside & (key < cut), key, 0)
    stayed = tl.where(inside & (key >= cut), key ^ _LARGEST, 0)
    return tl.sum(zero.to(tl.int32)), tl.sum(equal.to(tl.int32)), went, stayed


@triton.jit
def mask_kernel(
    weight_table, first_table, second_table, factors, sizes, first_chunk, tensors, chunks, number, base,
    state, zeros, ties_of_chunk,
    WEIGHT: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr, SCORE: tl.constexpr, SHIFT: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    cut = tl.load(state + _CUT).to(tl.int32)
    all_ties = tl.load(state + _TIES) == tl.load(state + _EQUAL)
    went, stayed = tl.zeros((BLOCK,), tl.int32), tl.zeros((BLOCK,), tl.int32)
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        weights = address(weight_table, tensor, WEIGHT)
        first, second = address(first_table, tensor, FIRST), address(second_table, tensor, SECOND)
        size, factor = tl.load(sizes + tensor), tl.load(factors + tensor)
        local = chunk - tl.load(first_chunk + tensor)
        start = local.to(tl.int64) * CHUNK
        zero, equal = tl.zeros((), tl.int32), tl.zeros((), tl.int32)
        for offset in range(0, CHUNK, BLOCK):
            at = start + offset + tl.arange(0, BLOCK)
            if start + offset + BLOCK <= size:
                z, e, w, s = _mask_block(weights, first, second, at, size, factor, cut, all_ties, SCORE, SHIFT, False)
                zero, equal = zero + z, equal + e
                went, stayed = tl.maximum(went, w), tl.maximum(stayed, s)
            elif start + offset < size:
                z, e, w, s = _mask_block(weights, first, second, at, size, factor, cut, all_ties, SCORE, SHIFT, True)
                zero, equal = zero + z, equal + e
                went, stayed = tl.maximum(went, w), tl.maximum(stayed, s)
        tl.atomic_add(zeros + tl.load(number + tensor), zero.to(tl.int64), sem="relaxed")
        tl.store(ties_of_chunk + tl.load(base + tensor) + local, equal.to(tl.int64))
    tl.atomic_max(state + _WENT, tl.max(went).to(tl.int64), sem="relaxed")
    tl.atomic_max(state + _STAYED, tl.max(stayed).to(tl.int64), sem="relaxed")


@triton.jit
def scan_kernel(
    state, low_at, ties_of_chunk, chunks, WIDTH: tl.constexpr, FLOOR: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """One program: where the next window and the floor lie, and, if ties must be told apart, how many precede each
    chunk. The floor is amid what went and what stayed."""
    went, cut = tl.load(state + _WENT), tl.load(state + _STAYED) ^ _LARGEST
    tl.store(state + _CUT, cut)
    # Never from key 0: zeros are many, and a counter that millions of them hit holds up the device for 50 ms.
    tl.store(low_at, tl.maximum(cut - WIDTH // 2, 1))
    if FLOOR:
        tl.store(low_at + 1, went + (cut - went + 1) // 2)
    ties = tl.load(state + _TIES)
    if (ties > 0) & (ties < tl.load(state + _EQUAL)):
        before = tl.zeros((), tl.int64)
        for offset in range(0, chunks, BLOCK):
            place = offset + tl.arange(0, BLOCK)
            counts = tl.load(ties_of_chunk + place, mask=place < chunks, other=0)
            tl.store(ties_of_chunk + place, before + tl.cumsum(counts, 0) - counts, mask=place < chunks)
            before += tl.sum(counts)


@triton.jit
def ties_kernel(
    weight_table, first_table, second_table, factors, sizes, first_chunk, tensors, chunks, number, base,
    state, zeros, ties_of_chunk,
    WEIGHT: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr, SCORE: tl.constexpr, SHIFT: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Zero the first `ties` of the weights whose key is the cut, where not all of them go."""
    ties = tl.load(state + _TIES)
    if (ties > 0) & (ties < tl.load(state + _EQUAL)):
        cut = tl.load(state + _CUT).to(tl.int32)
        for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
            tensor = find_tensor(first_chunk, tensors, chunk)
            local = chunk - tl.load(first_chunk + tensor)
            left = ties - tl.load(ties_of_chunk + tl.load(base + tensor) + local)
            if left > 0:
                weights = address(weight_table, tensor, WEIGHT)
                first, second = address(first_table, tensor, FIRST), address(second_table, tensor, SECOND)
                size, factor = tl.load(sizes + tensor), tl.load(factors + tensor)
                start = local.to(tl.int64) * CHUNK
                zero = tl.zeros((), tl.int32)
                for offset in range(0, CHUNK, BLOCK):
                    if start + offset < size:
                        at = start + offset + tl.arange(0, BLOCK)
                        key = key_of(score_of(first, second, at, size, factor, SCORE, True), SHIFT)
                        equal = (key == cut) & (at < size)
                        drop = equal & (tl.cumsum(equal.to(tl.int32), 0) <= left)
                        weight = read(weights, at, size, True)
                        tl.store(weights + at, tl.zeros_like(weight), mask=drop)
                        zero += tl.sum((drop & (weight != 0)).to(tl.int32))
                        left -= tl.sum(equal.to(tl.int32))
                tl.atomic_add(zeros + tl.load(number + tensor), zero.to(tl.int64), sem="relaxed")
