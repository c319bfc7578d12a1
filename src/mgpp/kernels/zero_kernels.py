"""The launches that zero what lies below the cut, and of the keys equal to it as many as must go.

`select_kernels` has those that find the cut; `mgpp.kernels.select` says how they fit together.
Roles: `weights` are masked; `first` and `second` are what the score is computed from.
"""

import triton
import triton.language as tl

from mgpp.kernels.select_kernels import CUT, EQUAL, LARGEST, STAYED, TIES, WENT, key_of, score_of
from mgpp.kernels.table import address, find_tensor, part_of, places

_CUT, _TIES, _EQUAL = tl.constexpr(CUT), tl.constexpr(TIES), tl.constexpr(EQUAL)
_WENT, _STAYED, _LARGEST = tl.constexpr(WENT), tl.constexpr(STAYED), tl.constexpr(LARGEST)


@triton.jit
def _mask_block(
    weights, first, second, place, inside, factor, cut, lowest, zero, equal, went, stayed,
    SCORE: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """Keys below `lowest` go. Adds to each lane's counts, and to its largest key that went and smallest that stayed."""
    score = score_of(first, second, place, inside, factor, SCORE)
    weight = score if SCORE == "magnitude" else tl.load(weights + place, mask=inside, other=0.0).to(tl.float32)
    key = tl.where(inside, key_of(score, SHIFT), _LARGEST)
    kept = tl.where(key < lowest, 0.0, weight)
    tl.store(weights + place, kept, mask=inside)
    zero += tl.sum(((kept == 0) & inside).to(tl.int32), 0)
    equal += tl.sum((key == cut).to(tl.int32), 0)
    went = tl.maximum(went, tl.max(tl.where(key < cut, key, 0), 0))
    stayed = tl.minimum(stayed, tl.min(tl.where(key < cut, _LARGEST, key), 0))
    return zero, equal, went, stayed


@triton.jit
def mask_kernel(
    weight_table, first_table, second_table, factors, sizes, first_chunk, tensors, chunks, number, base,
    state, zeros, ties_of_chunk,
    WEIGHT: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr, SCORE: tl.constexpr, SHIFT: tl.constexpr,
    EVEN: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    cut = tl.load(state + _CUT).to(tl.int32)
    ties, alike = tl.load(state + _TIES), tl.load(state + _EQUAL)
    tell_apart = (ties > 0) & (ties < alike)
    lowest = cut + (ties == alike).to(tl.int32)  # of those that stay
    place = places(BLOCK, LANES)
    went, stayed = tl.zeros((LANES,), tl.int32), tl.full((LANES,), _LARGEST, tl.int32)
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        factor = tl.load(factors + tensor)
        local = chunk - tl.load(first_chunk + tensor)
        start = local.to(tl.int64) * CHUNK
        weights = address(weight_table, tensor, WEIGHT) + start
        first, second = address(first_table, tensor, FIRST) + start, address(second_table, tensor, SECOND) + start
        here, whole = part_of(tl.load(sizes + tensor), start, CHUNK, EVEN)
        zero, equal = tl.zeros((LANES,), tl.int32), tl.zeros((LANES,), tl.int32)
        for offset in range(0, whole, BLOCK):
            zero, equal, went, stayed = _mask_block(
                weights + offset, first + offset, second + offset, place, place < whole - offset, factor,
                cut, lowest, zero, equal, went, stayed, SCORE, SHIFT,
            )  # fmt: skip
        if not EVEN:  # noqa: SIM102 (one is known when the kernel is compiled, the other when it runs)
            if whole < here:
                zero, equal, went, stayed = _mask_block(
                    weights + whole, first + whole, second + whole, place, place < here - whole, factor,
                    cut, lowest, zero, equal, went, stayed, SCORE, SHIFT,
                )  # fmt: skip
        tl.atomic_add(zeros + tl.load(number + tensor), tl.sum(zero).to(tl.int64), sem="relaxed")
        if tell_apart:
            tl.store(ties_of_chunk + tl.load(base + tensor) + local, tl.sum(equal).to(tl.int64))
    tl.atomic_max(state + _WENT, tl.max(went).to(tl.int64), sem="relaxed")
    tl.atomic_max(state + _STAYED, (tl.min(stayed) ^ _LARGEST).to(tl.int64), sem="relaxed")


@triton.jit
def scan_kernel(
    state, low_at, ties_of_chunk, chunks, WIDTH: tl.constexpr, FLOOR: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """One program: where the next window and the floor lie, and, if ties must be told apart, how many precede each
    chunk, and how many there are. The floor is amid what went and what stayed."""
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
        tl.store(ties_of_chunk + chunks, before)


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
            before = ties_of_chunk + tl.load(base + tensor) + local
            left = ties - tl.load(before)
            if (left > 0) & (tl.load(before + 1) > tl.load(before)):
                weights = address(weight_table, tensor, WEIGHT)
                first, second = address(first_table, tensor, FIRST), address(second_table, tensor, SECOND)
                size, factor = tl.load(sizes + tensor), tl.load(factors + tensor)
                start = local.to(tl.int64) * CHUNK
                zero = tl.zeros((), tl.int32)
                for offset in range(0, CHUNK, BLOCK):
                    if start + offset < size:
                        at = start + offset + tl.arange(0, BLOCK)
                        key = key_of(score_of(first, second, at, at < size, factor, SCORE), SHIFT)
                        equal = (key == cut) & (at < size)
                        drop = equal & (tl.cumsum(equal.to(tl.int32), 0) <= left)
                        weight = tl.load(weights + at, mask=at < size, other=0.0)
                        tl.store(weights + at, tl.zeros_like(weight), mask=drop)
                        zero += tl.sum((drop & (weight != 0)).to(tl.int32))
                        left -= tl.sum(equal.to(tl.int32))
                tl.atomic_add(zeros + tl.load(number + tensor), zero.to(tl.int64), sem="relaxed")
