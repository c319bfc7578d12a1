"""The launches that find the cut, and what they are made of; `mgpp.kernels.select` says how they fit together.

`zero_kernels` has those that follow, and zero what lies below it.

Keys: the bits of a non-negative float32 score without its lowest `SHIFT` bits, which order like the score.
Roles: `first` and `second` are what the score is computed from.
"""

import triton
import triton.language as tl

from mgpp.kernels.table import EACH, address, by_lane, find_tensor, part_of, read

# Slots of a state: is the cut found (1: in a window; 2: above the floor; 0: not yet; -1: in no window); how many keys
# below the window; the cut's key, how many keys below it, how many equal to it go (one at least stays); the radix
# select's leading digits and the rank left to find; how many keys below the floor; the largest key that went, and by
# how much LARGEST exceeds the smallest that stayed (each the largest that any program has seen, so both begin as 0);
# how many programs are done with their part of the window; how many chunks have ties that go.
HIT, BELOW, CUT, CUT_BELOW, TIES, PREFIX, RANK, DEEP, WENT, STAYED, DONE, TIED = range(12)
SLOTS = 12
PARTS = 64  # of the window, which are summed up side by side
LARGEST = 0x7FFFFFFF

_HIT, _BELOW, _CUT, _CUT_BELOW = tl.constexpr(HIT), tl.constexpr(BELOW), tl.constexpr(CUT), tl.constexpr(CUT_BELOW)
_TIES, _PREFIX, _RANK = tl.constexpr(TIES), tl.constexpr(PREFIX), tl.constexpr(RANK)
_DEEP, _DONE = tl.constexpr(DEEP), tl.constexpr(DONE)
_PARTS, _EACH, _LARGEST = tl.constexpr(PARTS), tl.constexpr(EACH), tl.constexpr(LARGEST)
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
def count_keys(key, low, floor, window, WINDOW: tl.constexpr, COARSE: tl.constexpr):
    """Does a key lie below the window, from bit 10 on in its middle, from bit 20 on below the floor; the others inside
    are counted where they belong. The middle is the last cut, where millions may be equal, and would wait for one
    counter."""
    # Without a sign the place of a key below the window comes last, and so does what is no key (-1).
    key, low, floor = (key.to(tl.uint32, bitcast=True), low.to(tl.uint32), floor.to(tl.uint32))
    place = (key - low) >> COARSE
    middle = place == WINDOW // 2
    beside = (place < WINDOW) & ~middle
    tl.atomic_add(window + tl.where(beside, place, 0), tl.full(key.shape, 1, tl.int64), mask=beside, sem="relaxed")
    return (key < low).to(tl.int32) + (middle.to(tl.int32) << 10) + ((key < floor).to(tl.int32) << 20)


@triton.jit
def only_inside(key, at, size, NARROW: tl.constexpr):
    """Beyond a tensor's end what is counted nowhere: above a narrow window, and without a sign above any other."""
    if NARROW:
        key = tl.where(at < size, key, _LARGEST)
    else:
        key = tl.where(at < size, key, -1)
    return key


@triton.jit
def pack_places(key, low):
    """Eight counters of eight bits in one number: below the window, each of its six keys, above. One of them is 1."""
    place = tl.minimum(tl.maximum(key - low + 1, 0), 7)
    return tl.full(key.shape, 1, tl.int64) << (8 * place).to(tl.int64)


@triton.jit
def nothing_counted(NARROW: tl.constexpr, BLOCK: tl.constexpr):
    if NARROW:
        counted = tl.zeros((8,), tl.int64)
    else:
        counted = tl.zeros((BLOCK // _EACH,), tl.int64)
    return counted


@triton.jit
def unpack(packed, NARROW: tl.constexpr):
    """What a span has counted, to be added to what its program has: where the window is narrow the eight counters' sums
    over all lanes, else each lane's three, with 21 bits for each."""
    if NARROW:
        place = tl.arange(0, 8)
        counted = tl.zeros((8,), tl.int64)
        for index in tl.static_range(8):
            counted += tl.where(place == index, tl.sum((packed >> (8 * index)) & 255), 0)
    else:
        packed = packed.to(tl.int64)
        counted = (packed & 1023) | ((packed >> 10 & 1023) << 21) | (packed >> 20 << 42)
    return counted


@triton.jit
def record_count(counted, state, window, WINDOW: tl.constexpr, NARROW: tl.constexpr):
    """Add one program's count to all programs'."""
    if NARROW:
        place = tl.arange(0, 8)
        tl.atomic_add(window + (place - 1), counted, mask=(place > 0) & (place < 7), sem="relaxed")
        below = tl.sum(tl.where(place == 0, counted, 0))
    else:
        below, deep = tl.sum(counted & 0x1FFFFF), tl.sum(counted >> 42)
        middle = tl.sum(counted >> 21 & 0x1FFFFF)
        tl.atomic_add(window + WINDOW // 2, middle, mask=middle > 0, sem="relaxed")
        tl.atomic_add(state + _DEEP, deep, mask=deep > 0, sem="relaxed")
    tl.atomic_add(state + _BELOW, below, mask=below > 0, sem="relaxed")


@triton.jit
def nothing_packed(NARROW: tl.constexpr, BLOCK: tl.constexpr):
    if NARROW:
        packed = tl.zeros((BLOCK,), tl.int64)
    else:
        packed = tl.zeros((BLOCK // _EACH,), tl.int32)
    return packed


@triton.jit
def count_block(
    key, low, floor, window, WINDOW: tl.constexpr, NARROW: tl.constexpr, BLOCK: tl.constexpr, COARSE: tl.constexpr = 0
):  # fmt: skip
    """Packed counters, for `unpack`. Where the window is not narrow the block must not have been read wide: each lane
    then has the keys that it counts, which would else be moved through shared memory."""
    if NARROW:
        counted = pack_places(key, low)
    else:
        counted = by_lane(count_keys(key, low, floor, window, WINDOW, COARSE), BLOCK)
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
    counted = nothing_counted(NARROW, BLOCK)
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        start, size = part_of(sizes, first_chunk, tensor, chunk, CHUNK)
        first = address(first_table, tensor, FIRST, WIDE=NARROW) + start
        second = address(second_table, tensor, SECOND, WIDE=NARROW) + start
        factor = tl.load(factors + tensor)
        for span in range(0, CHUNK, SPAN):
            packed = nothing_packed(NARROW, BLOCK)
            for offset in range(span, span + SPAN, BLOCK):
                if offset < size:
                    at = offset + tl.arange(0, BLOCK)
                    if offset + BLOCK <= size:
                        key = key_of(score_of(first, second, at, size, factor, SCORE, False), SHIFT)
                    else:
                        key = key_of(score_of(first, second, at, size, factor, SCORE, True), SHIFT)
                        key = only_inside(key, at, size, NARROW)
                    packed += count_block(key, low, floor, window, WINDOW, NARROW, BLOCK, COARSE)
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
    state, aim, low_at, window, parts, target, WIDTH: tl.constexpr, COARSE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Each program sums up a part of the window. The last finds the first key at which more than k keys lie at or
    below; k is `target`. If there is none, but k keys lie below the floor, those go: the cut is the smallest that
    stays, which the mask finds.

    `COARSE`: of 2^COARSE keys it is not known which, so the next window is put around them; there is none if no counter
    has it."""
    if tl.load(state + _HIT) == 0:
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(parts + tl.program_id(0), tl.sum(tl.load(window + place, mask=place < WIDTH, other=0)))
        if tl.atomic_add(state + _DONE, 1) == tl.num_programs(0) - 1:
            tl.store(state + _DONE, 0)
            _resolve(state, aim, low_at, window, parts, tl.load(target), tl.num_programs(0), WIDTH, COARSE, BLOCK)


@triton.jit
def _resolve(
    state, aim, low_at, window, parts, k, count, WIDTH: tl.constexpr, COARSE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    part = tl.arange(0, _PARTS)
    keys = tl.load(parts + part, mask=part < count, other=0)
    before = tl.load(state + _BELOW) + tl.cumsum(keys, 0) - keys
    here = (before <= k) & (before + keys > k)
    if tl.sum(here.to(tl.int32)) > 0:
        place = tl.sum(tl.where(here, part, 0)) * BLOCK + tl.arange(0, BLOCK)
        counts = tl.load(window + place, mask=place < WIDTH, other=0)
        before_each = tl.sum(tl.where(here, before, 0)) + tl.cumsum(counts, 0) - counts
        cut = (before_each <= k) & (before_each + counts > k)
        key = start_of(tl.load(low_at), WIDTH, COARSE) + (tl.sum(tl.where(cut, place, 0)) << COARSE)
        if COARSE > 0:
            tl.store(low_at, tl.maximum(key - WIDTH // 2, 1))
        else:
            below = tl.sum(tl.where(cut, before_each, 0))
            tl.store(state + _CUT, key)
            tl.store(state + _CUT_BELOW, below)
            tl.store(state + _TIES, k - below)
            tl.store(state + _HIT, 1)
            tl.store(aim + _HIT, 1)
    elif COARSE > 0:
        tl.store(state + _HIT, -1)
    elif tl.load(state + _DEEP) == k:
        tl.store(state + _CUT, tl.load(low_at + 1))
        tl.store(state + _CUT_BELOW, k)
        tl.store(state + _TIES, 0)
        tl.store(state + _HIT, 2)
        tl.store(aim + _HIT, 1)


@triton.jit
def sample_kernel(
    first_table, second_table, factors, sizes, first_chunk, tensors, chunks, state, digits, offset_of_digit,
    FIRST: tl.constexpr, SECOND: tl.constexpr, SCORE: tl.constexpr, SHIFT: tl.constexpr, BITS: tl.constexpr,
    TOP: tl.constexpr, SAMPLE: tl.constexpr, RUN: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A histogram of the next bits of the keys whose leading bits are found, of SAMPLE keys of every chunk, which lie
    in runs of RUN: that many are read at once anyway."""
    if tl.load(state + _HIT) <= 0:
        prefix = tl.load(state + _PREFIX).to(tl.int32)
        counted = tl.zeros((1 << BITS,), tl.int32)
        each = tl.arange(0, SAMPLE)
        of_chunk = each // RUN * (CHUNK // SAMPLE * RUN) + each % RUN
        at_once: tl.constexpr = BLOCK // SAMPLE
        for block in range(tl.program_id(0) * at_once, chunks, tl.num_programs(0) * at_once):
            chunk = block + tl.arange(0, at_once)
            tensor = find_tensor(first_chunk, tensors, chunk)
            first, second = address(first_table, tensor, FIRST, False), address(second_table, tensor, SECOND, False)
            start, size = part_of(sizes, first_chunk, tensor, chunk, CHUNK)
            factor = tl.load(factors + tensor)[:, None]
            first, second = (first + start)[:, None], (second + start)[:, None]
            key = key_of(score_of(first, second, of_chunk[None, :], size[:, None], factor, SCORE, True), SHIFT)
            matching = of_chunk[None, :] < size[:, None]
            if not TOP:
                matching &= (key >> (offset_of_digit + BITS)) == prefix
            digit = (key >> offset_of_digit) & ((1 << BITS) - 1)
            counted += tl.histogram(tl.reshape(digit, (BLOCK,)), 1 << BITS, mask=tl.reshape(matching, (BLOCK,)))
        tl.atomic_add(digits + tl.arange(0, 1 << BITS), counted.to(tl.int64), mask=counted > 0, sem="relaxed")


@triton.jit
def digit_kernel(
    first_table, second_table, factors, sizes, first_chunk, tensors, chunks, state, digits, offset_of_digit,
    FIRST: tl.constexpr, SECOND: tl.constexpr, SCORE: tl.constexpr, SHIFT: tl.constexpr, BITS: tl.constexpr,
    TOP: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The same of all keys."""
    if tl.load(state + _HIT) <= 0:
        prefix = tl.load(state + _PREFIX).to(tl.int32)
        counted = tl.zeros((1 << BITS,), tl.int32)
        for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
            tensor = find_tensor(first_chunk, tensors, chunk)
            start, size = part_of(sizes, first_chunk, tensor, chunk, CHUNK)
            first, second = address(first_table, tensor, FIRST) + start, address(second_table, tensor, SECOND) + start
            factor = tl.load(factors + tensor)
            for offset in range(0, CHUNK, BLOCK):
                if offset < size:
                    at = offset + tl.arange(0, BLOCK)
                    key = key_of(score_of(first, second, at, size, factor, SCORE, True), SHIFT)
                    matching = at < size
                    if not TOP:
                        matching &= (key >> (offset_of_digit + BITS)) == prefix
                    digit = (key >> offset_of_digit) & ((1 << BITS) - 1)
                    counted += tl.histogram(digit, 1 << BITS, mask=matching)
        tl.atomic_add(digits + tl.arange(0, 1 << BITS), counted.to(tl.int64), mask=counted > 0, sem="relaxed")


@triton.jit
def resolve_digit_kernel(
    state, low_at, digits, target, sampled, total,
    BITS: tl.constexpr, TOP: tl.constexpr, LAST: tl.constexpr, AIM: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    """One program: step into the digit that holds the cut of `sampled` keys of `total`. `AIM` > 0: at the end, centre a
    window of that width where the cut lies if the keys that share these digits are spread evenly over the `REST` bits
    that have not been looked at."""
    if tl.load(state + _HIT) <= 0:
        k = tl.load(target) * sampled // total
        if TOP:
            rank = k
        else:
            rank = tl.load(state + _RANK)
        place = tl.arange(0, 1 << BITS)
        counts = tl.load(digits + place)
        before = tl.cumsum(counts, 0) - counts
        here = (before <= rank) & (before + counts > rank)
        rank -= tl.sum(tl.where(here, before, 0))
        prefix = (tl.load(state + _PREFIX) << BITS) + tl.sum(tl.where(here, place, 0))
        tl.store(state + _PREFIX, prefix)
        tl.store(state + _RANK, rank)
        if LAST:
            if AIM > 0:
                within = (rank << REST) // tl.maximum(tl.sum(tl.where(here, counts, 0)), 1)
                tl.store(low_at, tl.maximum((prefix << REST) + within - AIM // 2, 1))
            else:
                tl.store(state + _CUT, prefix)
                tl.store(state + _CUT_BELOW, k - rank)
                tl.store(state + _TIES, rank)
