"""The launches that choosing masks by learned scores is made of; `mgpp.kernels.mask_select` says how they fit together.

Keys: a float32 score as an integer with a sign, in the order of the scores. A set is what is chosen from together.
"""

import torch
import triton
import triton.language as tl

from mgpp.kernels.table import address, find_tensor, read, write

# A set's slots: how many are to go, its size, the cut's leading digits and in the end its key, the rank left to find,
# how many equal to the cut go, and how many are equal.
TARGET, SIZE, PREFIX, RANK, TIES, EQUAL = range(6)
SLOTS = 8
DIGITS = 256
LARGEST = 0x7FFFFFFF  # NaN's key, and the cut of a set that goes as a whole

_TARGET, _SIZE, _PREFIX, _RANK = tl.constexpr(TARGET), tl.constexpr(SIZE), tl.constexpr(PREFIX), tl.constexpr(RANK)
_TIES, _EQUAL, _SLOTS, _DIGITS = tl.constexpr(TIES), tl.constexpr(EQUAL), tl.constexpr(SLOTS), tl.constexpr(DIGITS)
_LARGEST = tl.constexpr(LARGEST)
_LOWEST = tl.constexpr(torch.finfo(torch.float32).min)


@triton.jit
def _key_of(latent, score, MARK: tl.constexpr):
    """Integers in the order of the scores, one for both zeros; NaN is the largest. With MARK, what is zero itself goes
    first."""
    if MARK:
        score = tl.where(latent == 0, _LOWEST, score)
    bits = tl.where(score == 0, 0.0, score).to(tl.int32, bitcast=True)
    return tl.where(score != score, _LARGEST, bits ^ ((bits >> 31) & _LARGEST))


@triton.jit
def _count_digits(latents, scores, at, size, prefix, offset_of_digit, TOP: tl.constexpr, MASKED: tl.constexpr):
    key = _key_of(read(latents, at, size, MASKED), read(scores, at, size, MASKED), True)
    matching = at < size
    digit = key >> offset_of_digit
    if TOP:
        digit += _DIGITS // 2  # keys are signed
    else:
        matching &= (key >> (offset_of_digit + 8)) == prefix
        digit &= _DIGITS - 1
    return tl.histogram(digit, _DIGITS, mask=matching)


@triton.jit
def digit_kernel(
    latent_table, score_table, sizes, first_chunk, tensors, chunks, set_of, states, digits, offset_of_digit,
    LATENT: tl.constexpr, SCORE: tl.constexpr, TOP: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A histogram for every set: of the next eight bits of the keys whose leading bits are its cut's."""
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        latents, scores = address(latent_table, tensor, LATENT), address(score_table, tensor, SCORE)
        size, of = tl.load(sizes + tensor), tl.load(set_of + tensor)
        prefix = tl.load(states + of * _SLOTS + _PREFIX).to(tl.int32)
        start = (chunk - tl.load(first_chunk + tensor)).to(tl.int64) * CHUNK
        counted = tl.zeros((_DIGITS,), tl.int32)
        for offset in range(0, CHUNK, BLOCK):
            at = start + offset + tl.arange(0, BLOCK)
            if start + offset + BLOCK <= size:
                counted += _count_digits(latents, scores, at, size, prefix, offset_of_digit, TOP, False)
            elif start + offset < size:
                counted += _count_digits(latents, scores, at, size, prefix, offset_of_digit, TOP, True)
        place = digits + of * _DIGITS + tl.arange(0, _DIGITS)
        tl.atomic_add(place, counted.to(tl.int64), mask=counted > 0, sem="relaxed")


@triton.jit
def resolve_kernel(states, digits, TOP: tl.constexpr, LAST: tl.constexpr):
    """One program a set: step into the digit that holds the cut, and clear the histogram for the next."""
    state = states + tl.program_id(0) * _SLOTS
    place = tl.arange(0, _DIGITS)
    mine = digits + tl.program_id(0) * _DIGITS + place
    counts = tl.load(mine)
    tl.store(mine, tl.zeros((_DIGITS,), tl.int64))
    if TOP:
        rank = tl.load(state + _TARGET)
        leading = tl.zeros((), tl.int64)
    else:
        rank = tl.load(state + _RANK)
        leading = tl.load(state + _PREFIX) * _DIGITS
    before = tl.cumsum(counts, 0) - counts
    here = (before <= rank) & (before + counts > rank)
    rank -= tl.sum(tl.where(here, before, 0))
    equal = tl.sum(tl.where(here, counts, 0))
    prefix = leading + tl.sum(tl.where(here, place, 0))
    if TOP:
        prefix -= _DIGITS // 2
    if LAST:
        whole = tl.load(state + _TARGET) >= tl.load(state + _SIZE)
        prefix = tl.where(whole, _LARGEST, prefix)
        rank = tl.where(whole, 0, rank)
        equal = tl.where(whole, 0, equal)
    tl.store(state + _PREFIX, prefix)
    tl.store(state + _RANK, rank)
    tl.store(state + _TIES, rank)
    tl.store(state + _EQUAL, equal)


@triton.jit
def _mask_block(keeps, latents, scores, at, size, cut, all_ties, MARK: tl.constexpr, MASKED: tl.constexpr):
    latent = read(latents, at, size, MASKED)
    key = _key_of(latent, read(scores, at, size, MASKED), MARK)
    equal = key == cut
    goes = (key < cut) | (equal & all_ties)
    write(keeps, at, size, (goes == 0).to(tl.int8), MASKED)
    is_zero = goes | (latent == 0)
    if MASKED:
        is_zero &= at < size
        equal &= at < size
    return tl.sum(is_zero.to(tl.int32)), tl.sum(equal.to(tl.int32))


@triton.jit
def mask_kernel(
    keep_table, latent_table, score_table, sizes, first_chunk, tensors, chunks, set_of, number, base,
    states, zeros, ties_of_chunk,
    LATENT: tl.constexpr, SCORE: tl.constexpr, MARK: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the masks, as if of the keys that equal the cut either all went or none; count what is zero then."""
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        keeps = address(keep_table, tensor, tl.int8)
        latents, scores = address(latent_table, tensor, LATENT), address(score_table, tensor, SCORE)
        size, state = tl.load(sizes + tensor), states + tl.load(set_of + tensor) * _SLOTS
        cut = tl.load(state + _PREFIX).to(tl.int32)
        all_ties = tl.load(state + _TIES) == tl.load(state + _EQUAL)
        local = chunk - tl.load(first_chunk + tensor)
        start = local.to(tl.int64) * CHUNK
        zero, equals = tl.zeros((), tl.int32), tl.zeros((), tl.int32)
        for offset in range(0, CHUNK, BLOCK):
            at = start + offset + tl.arange(0, BLOCK)
            if start + offset + BLOCK <= size:
                z, e = _mask_block(keeps, latents, scores, at, size, cut, all_ties, MARK, False)
                zero += z
                equals += e
            elif start + offset < size:
                z, e = _mask_block(keeps, latents, scores, at, size, cut, all_ties, MARK, True)
                zero += z
                equals += e
        tl.atomic_add(zeros + tl.load(number + tensor), zero.to(tl.int64), sem="relaxed")
        tl.store(ties_of_chunk + tl.load(base + tensor) + local, equals)


@triton.jit
def scan_kernel(states, first_chunk_of_set, ties_of_chunk, BLOCK: tl.constexpr):
    """One program a set: where ties must be told apart, how many precede each of its chunks that has some."""
    state = states + tl.program_id(0) * _SLOTS
    ties = tl.load(state + _TIES)
    if (ties > 0) & (ties < tl.load(state + _EQUAL)):
        end = tl.load(first_chunk_of_set + tl.program_id(0) + 1)
        before = tl.zeros((), tl.int64)
        for start in range(tl.load(first_chunk_of_set + tl.program_id(0)), end, BLOCK):
            place = start + tl.arange(0, BLOCK)
            counts = tl.load(ties_of_chunk + place, mask=place < end, other=0).to(tl.int64)
            preceding = tl.where(counts > 0, before + tl.cumsum(counts, 0) - counts, ties)
            tl.store(ties_of_chunk + place, tl.minimum(preceding, _LARGEST).to(tl.int32), mask=place < end)
            before += tl.sum(counts)


@triton.jit
def ties_kernel(
    keep_table, latent_table, score_table, sizes, first_chunk, tensors, chunks, set_of, number, base,
    states, zeros, ties_of_chunk,
    LATENT: tl.constexpr, SCORE: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The first of the keys that equal the cut leave the masks, where not all of them do."""
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        state = states + tl.load(set_of + tensor) * _SLOTS
        ties = tl.load(state + _TIES)
        local = chunk - tl.load(first_chunk + tensor)
        left = ties - tl.load(ties_of_chunk + tl.load(base + tensor) + local)
        if (ties > 0) & (ties < tl.load(state + _EQUAL)) & (left > 0):
            keeps = address(keep_table, tensor, tl.int8)
            latents, scores = address(latent_table, tensor, LATENT), address(score_table, tensor, SCORE)
            size, cut = tl.load(sizes + tensor), tl.load(state + _PREFIX).to(tl.int32)
            start = local.to(tl.int64) * CHUNK
            zero = tl.zeros((), tl.int32)
            for offset in range(0, CHUNK, BLOCK):
                if start + offset < size:
                    at = start + offset + tl.arange(0, BLOCK)
                    latent = read(latents, at, size, True)
                    equal = (_key_of(latent, read(scores, at, size, True), True) == cut) & (at < size)
                    goes = equal & (tl.cumsum(equal.to(tl.int32), 0) <= left)
                    tl.store(keeps + at, tl.zeros((BLOCK,), tl.int8), mask=goes)
                    zero += tl.sum((goes & (latent != 0)).to(tl.int32))
                    left -= tl.sum(equal.to(tl.int32))
            tl.atomic_add(zeros + tl.load(number + tensor), zero.to(tl.int64), sem="relaxed")
