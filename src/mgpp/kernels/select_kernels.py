"""The launches that find the cut, and what they are made of; `mgpp.kernels.select` says how they fit together.

`zero_kernels` has those that follow, and zero what lies below it.

Keys: the bits of a non-negative float32 score without its lowest `SHIFT` bits, which order like the score.
Roles: `first` and `second` are what the score is computed from.
"""

import triton
import triton.language as tl

from mgpp.kernels.table import address, find_tensor, read

# Slots of a state: is the cut found (1: in a window; 2: above the floor; 0: not yet; -1: in no window); how many keys
# below the window; the cut's key, how many keys below it, how many equal to it go, how many are equal; the radix
# select's leading digits and the rank left to find; how many keys below the floor; the largest key that went, and by
# how much LARGEST exceeds the smallest that stayed (each the largest that any program has seen, so both begin as 0).
HIT, BELOW, CUT, CUT_BELOW, TIES, EQUAL, PREFIX, RANK, DEEP, WENT, STAYED = range(11)
SLOTS = 11
DIGITS = 256
LARGEST = 0x7FFFFFFF

_HIT, _BELOW, _CUT, _CUT_BELOW = tl.constexpr(HIT), tl.constexpr(BELOW), tl.constexpr(CUT), tl.constexpr(CUT_BELOW)
_TIES, _EQUAL, _PREFIX, _RANK = tl.constexpr(TIES), tl.constexpr(EQUAL), tl.constexpr(PREFIX), tl.constexpr(RANK)
_DEEP, _WENT, _STAYED = tl.constexpr(DEEP), tl.constexpr(WENT), tl.constexpr(STAYED)
_DIGITS = tl.constexpr(DIGITS)
_TINY = tl.constexpr(1.1754943508222875e-38)  # float32's least normal number
_HUGE = tl.constexpr(3.4028234663852886e38)  # and its largest


@triton.jit
def curvature(weight, second_moment, correction):
    """Twin: mgpp.functional.score.curvature."""
    size = tl.abs(weight)
    deviation = tl.sqrt_rn(tl.div_rn(second_moment, correction))
    score = tl.where(deviation > _HUGE, _HUGE, deviation) * size  # a zero times inf would be NaN
    least = tl.where(size < _TINY, size, _TINY)
    return tl.where(score < least, least, score)  # not tl.maximum, which would lose a NaN


@triton.jit
def score_of(first, second, at, size, factor, SCORE: tl.constexpr, MASKED: tl.constexpr):
    """|w| from the weights, |w|·√(v/factor) from weights and second moments, a·b, or a itself."""
    score = read(first, at, size, MASKED)
    if SCORE == "curvature":
        score = curvature(score, read(second, at, size, MASKED), factor)
    if SCORE == "product":
        score = score * read(second, at, size, MASKED)
    return score


@triton.jit
def key_of(score, SHIFT: tl.constexpr):
    return (score.to(tl.int32, bitcast=True) & 0x7FFFFFFF) >> SHIFT


@triton.jit
def start_of(low, WINDOW: tl.constexpr, COARSE: tl.constexpr):
    """Where a window of counters for 2^COARSE keys each begins, that has its middle where the one from `low` on has."""
    if COARSE > 0:
        low = tl.maximum(low - ((WINDOW << COARSE) - WINDOW) // 2, 1)
    return low


@triton.jit
def count_keys(key, inside, low, floor, window, WINDOW: tl.constexpr, MASKED: tl.constexpr, COARSE: tl.constexpr):
    """How many keys lie below the window, from bit 21 on how many in its middle, from bit 42 on how many below the
    floor; the others inside are counted where they belong. The middle is the last cut, where millions may be equal, and
    would wait for one counter."""
    place = (key - low) >> COARSE
    under, deep = key < low, key < floor
    within = (key >= low) & (place < WINDOW)
    if MASKED:
        under &= inside
        deep &= inside
        within &= inside
    middle = within & (place == WINDOW // 2)
    tl.atomic_add(window + place, tl.full(key.shape, 1, tl.int64), mask=within & ~middle, sem="relaxed")
    both = tl.sum(under.to(tl.int32) + (deep.to(tl.int32) << 16)).to(tl.int64)
    return (both & 0xFFFF) + (tl.sum(middle.to(tl.int32)).to(tl.int64) << 21) + (both >> 16 << 42)


@triton.jit
def pack_places(key, inside, low):
    """Eight counters of eight bits in one number: below the window, each of its six keys, above. One of them is 1."""
    place = tl.minimum(tl.maximum(key - low + 1, 0), 7)
    return tl.where(inside, tl.full(key.shape, 1, tl.int64) << (8 * place).to(tl.int64), 0)


@triton.jit
def unpack(packed, NARROW: tl.constexpr):
    """The counters' sums over all lanes. Each lane may have counted 255 at most where the window is narrow; else there
    are no lanes, and three counters of 21 bits."""
    place = tl.arange(0, 8)
    total = tl.zeros((8,), tl.int64)
    if NARROW:
        for index in tl.static_range(8):
            total += tl.where(place == index, tl.sum((packed >> (8 * index)) & 255), 0)
    else:
        for index in tl.static_range(3):
            total += tl.where(place == index, (packed >> (21 * index)) & 0x1FFFFF, 0)
    return total


@triton.jit
def record_count(counted, state, window, WINDOW: tl.constexpr, NARROW: tl.constexpr):
    """Add one program's count to all programs'."""
    place = tl.arange(0, 8)
    if NARROW:
        tl.atomic_add(window + (place - 1), counted, mask=(place > 0) & (place < 7), sem="relaxed")
    else:
        middle = tl.sum(tl.where(place == 1, counted, 0))
        tl.atomic_add(window + WINDOW // 2, middle, mask=middle > 0, sem="relaxed")
        tl.atomic_add(state + _DEEP, tl.sum(tl.where(place == 2, counted, 0)), sem="relaxed")
    tl.atomic_add(state + _BELOW, tl.sum(tl.where(place == 0, counted, 0)), sem="relaxed")


@triton.jit
def nothing_packed(NARROW: tl.constexpr, BLOCK: tl.constexpr):
    if NARROW:
        packed = tl.zeros((BLOCK,), tl.int64)
    else:
        packed = tl.zeros((), tl.int64)
    return packed


@triton.jit
def count_block(
    key, at, size, low, floor, window,
    WINDOW: tl.constexpr, NARROW: tl.constexpr, MASKED: tl.constexpr, COARSE: tl.constexpr = 0,
):  # fmt: skip
    """Packed counters, for `unpack`."""
    if NARROW:
        counted = pack_places(key, at < size, low)
    else:
        counted = count_keys(key, at < size, low, floor, window, WINDOW, MASKED, COARSE)
    return counted


@triton.jit
def count_kernel(
    first_table, second_table, factors, sizes, first_chunk, tensors, chunks, state, low_at, window,
    FIRST: tl.constexpr, SECOND: tl.constexpr, SCORE: tl.constexpr, SHIFT: tl.constexpr,
    AGAIN: tl.constexpr, COARSE: tl.constexpr, WINDOW: tl.constexpr, NARROW: tl.constexpr,
    CHUNK: tl.constexpr, SPAN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`AGAIN`: only if the cut has not been found and a window may hold it. `COARSE`: one counter for 2^COARSE keys."""
    if AGAIN:
        chunks *= (tl.load(state + _HIT) == 0).to(tl.int32)
    low = start_of(tl.load(low_at).to(tl.int32), WINDOW, COARSE)
    floor = tl.load(low_at + 1).to(tl.int32)
    counted = tl.zeros((8,), tl.int64)
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        first, second = address(first_table, tensor, FIRST), address(second_table, tensor, SECOND)
        size, factor = tl.load(sizes + tensor), tl.load(factors + tensor)
        start = (chunk - tl.load(first_chunk + tensor)).to(tl.int64) * CHUNK
        for span in range(0, CHUNK, SPAN):
            packed = nothing_packed(NARROW, BLOCK)
            for offset in range(span, span + SPAN, BLOCK):
                at = start + offset + tl.arange(0, BLOCK)
                if start + offset + BLOCK <= size:
                    key = key_of(score_of(first, second, at, size, factor, SCORE, False), SHIFT)
                    packed += count_block(key, at, size, low, floor, window, WINDOW, NARROW, False, COARSE)
                elif start + offset < size:
                    key = key_of(score_of(first, second, at, size, factor, SCORE, True), SHIFT)
                    packed += count_block(key, at, size, low, floor, window, WINDOW, NARROW, True, COARSE)
            counted += unpack(packed, NARROW)
    record_count(counted, state, window, WINDOW, NARROW)


@triton.jit
def clear_kernel(state, window, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Make ready to count again, if the cut has not been found and a window may hold it."""
    if tl.load(state + _HIT) == 0:
        for offset in range(tl.program_id(0) * BLOCK, WIDTH, tl.num_programs(0) * BLOCK):
            tl.store(window + offset + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.int64))
        if tl.program_id(0) == 0:
            tl.store(state + _BELOW, 0)
            tl.store(state + _DEEP, 0)


@triton.jit
def resolve_kernel(
    state, aim, low_at, window, target, WIDTH: tl.constexpr, COARSE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """One program: the first key of the window at which more than k keys lie at or below; k is `target`. If there is
    none, but k keys lie below the floor, those go: the cut is the smallest that stays, which the mask finds.

    `COARSE`: of 2^COARSE keys it is not known which, so the next window is put around them; there is none if no counter
    has it."""
    k = tl.load(target)
    below = tl.load(state + _BELOW)
    found = tl.load(state + _HIT).to(tl.int32)
    if (found == 0) & (below <= k):
        start = start_of(tl.load(low_at), WIDTH, COARSE)
        for offset in range(0, WIDTH, BLOCK):
            place = offset + tl.arange(0, BLOCK)
            counts = tl.load(window + place, mask=place < WIDTH, other=0)
            inside = tl.sum(counts)
            if (found == 0) & (below + inside > k):
                before = tl.cumsum(counts, 0) - counts
                here = (below + before <= k) & (below + before + counts > k)
                key = start + (tl.sum(tl.where(here, place, 0)) << COARSE)
                if COARSE > 0:
                    tl.store(low_at, tl.maximum(key - WIDTH // 2, 1))
                else:
                    started = tl.sum(tl.where(here, below + before, 0))
                    tl.store(state + _CUT, key)
                    tl.store(state + _CUT_BELOW, started)
                    tl.store(state + _TIES, k - started)
                    tl.store(state + _EQUAL, tl.sum(tl.where(here, counts, 0)))
                    tl.store(state + _HIT, 1)
                    tl.store(aim + _HIT, 1)
                found = 1
            below += inside
    if found == 0:
        if COARSE > 0:
            tl.store(state + _HIT, -1)
        elif tl.load(state + _DEEP) == k:
            tl.store(state + _CUT, tl.load(low_at + 1))
            tl.store(state + _CUT_BELOW, k)
            tl.store(state + _TIES, 0)
            tl.store(state + _EQUAL, 1)  # more than the ties: none of them go
            tl.store(state + _HIT, 2)
            tl.store(aim + _HIT, 1)


@triton.jit
def digit_kernel(
    first_table, second_table, factors, sizes, first_chunk, tensors, chunks, state, digits, offset_of_digit,
    FIRST: tl.constexpr, SECOND: tl.constexpr, SCORE: tl.constexpr, SHIFT: tl.constexpr,
    TOP: tl.constexpr, STRIDE: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A histogram of the next eight bits of the keys whose leading bits are found; of every STRIDE-th, or of all."""
    if tl.load(state + _HIT) <= 0:
        prefix = tl.load(state + _PREFIX).to(tl.int32)
        counted = tl.zeros((_DIGITS,), tl.int32)
        for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
            tensor = find_tensor(first_chunk, tensors, chunk)
            first, second = address(first_table, tensor, FIRST), address(second_table, tensor, SECOND)
            size, factor = tl.load(sizes + tensor), tl.load(factors + tensor)
            start = (chunk - tl.load(first_chunk + tensor)).to(tl.int64) * CHUNK
            for offset in range(0, CHUNK, BLOCK * STRIDE):
                if start + offset < size:
                    at = start + offset + tl.arange(0, BLOCK) * STRIDE
                    key = key_of(score_of(first, second, at, size, factor, SCORE, True), SHIFT)
                    matching = at < size
                    if not TOP:
                        matching &= (key >> (offset_of_digit + 8)) == prefix
                    counted += tl.histogram((key >> offset_of_digit) & (_DIGITS - 1), _DIGITS, mask=matching)
        tl.atomic_add(digits + tl.arange(0, _DIGITS), counted.to(tl.int64), sem="relaxed")


@triton.jit
def resolve_digit_kernel(
    state, low_at, digits, target, TOP: tl.constexpr, LAST: tl.constexpr, AIM: tl.constexpr, REST: tl.constexpr
):  # fmt: skip
    """One program: step into the digit that holds the cut. `AIM` > 0: at the end, centre a window of that width on the
    keys that share these digits; `REST` are the bits that have not been looked at."""
    if tl.load(state + _HIT) <= 0:
        k = tl.load(target)
        if TOP:
            rank = k
        else:
            rank = tl.load(state + _RANK)
        place = tl.arange(0, _DIGITS)
        counts = tl.load(digits + place)
        before = tl.cumsum(counts, 0) - counts
        here = (before <= rank) & (before + counts > rank)
        rank -= tl.sum(tl.where(here, before, 0))
        prefix = tl.load(state + _PREFIX) * _DIGITS + tl.sum(tl.where(here, place, 0))
        tl.store(state + _PREFIX, prefix)
        tl.store(state + _RANK, rank)
        if LAST:
            if AIM > 0:
                tl.store(low_at, tl.maximum((prefix << REST) + (1 << REST) // 2 - AIM // 2, 1))
            else:
                tl.store(state + _CUT, prefix)
                tl.store(state + _CUT_BELOW, k - rank)
                tl.store(state + _TIES, rank)
                tl.store(state + _EQUAL, tl.sum(tl.where(here, counts, 0)))
