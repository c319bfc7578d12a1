"""A tensor as parts, and back: a mask and the numbers that are kept where that is smaller, else the numbers alone."""

from collections.abc import Mapping

import torch
from torch import Tensor

from mgpp.artifact.bitmask import STRETCH, count_kept, mask_bytes, pack_mask, spare_bits, spread, unpack_mask
from mgpp.artifact.container import CODES, DTYPES
from mgpp.artifact.layout import FLOATS, MASK, NEGATIVE, SCALE, VALUES, Record
from mgpp.artifact.quantise import dequantise_rows, quantise_rows

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def encode(tensor: Tensor, stored: str) -> tuple[Record, dict[str, Tensor]]:
    """`tensor` is contiguous and on the CPU; `stored` is its own type, or one that rounds it."""
    dtype, shape = CODES[tensor.dtype], tuple(tensor.shape)
    scales: dict[str, Tensor] = {}
    if stored == "I8" and dtype in FLOATS:
        numbers, scales[SCALE] = quantise_rows(_finite(tensor))
    else:
        numbers = _narrowed(tensor, stored)
    split = _split(numbers, exact=stored == dtype) if dtype in FLOATS else None
    kept = None if split is None else split[VALUES].numel()
    return Record(shape=shape, dtype=dtype, stored=stored, kept=kept), (split or {VALUES: numbers}) | scales


def decode(record: Record, parts: Mapping[str, Tensor]) -> Tensor:
    """The tensor as it was, or as its stored numbers round it. ValueError where mask and count disagree."""
    dtype = DTYPES[record.dtype]
    if record.kept is None and SCALE not in parts:
        return parts[VALUES].to(dtype)
    out = torch.empty(record.shape, dtype=dtype)
    if record.kept is not None:
        _check_mask(record, parts)
    if SCALE in parts:
        _decode_rows(out, record, parts)
    else:
        _decode_sparse(out, parts)
    return out


def bits_of(tensor: Tensor) -> Tensor:
    """A contiguous tensor's bit patterns, one-dimensional: they tell -0.0 from 0.0 and one NaN from another."""
    return tensor.reshape(-1).view(_BITS[tensor.element_size()])


def _split(numbers: Tensor, *, exact: bool) -> dict[str, Tensor] | None:
    """Mask and kept numbers; None where they would not be smaller than the numbers as they are."""
    bits = bits_of(numbers)
    width, mask_size = bits.element_size(), mask_bytes(bits.numel())
    keep = bits != 0
    marks: dict[str, Tensor] = {}
    # A few signed zeros are cheapest among the values; a weight that was multiplied by a mask has them by the million.
    negative = bits == torch.iinfo(bits.dtype).min  # the sign alone
    if exact and int(negative.sum()) * width > mask_size:
        keep &= ~negative
        marks[NEGATIVE] = pack_mask(negative)
    if int(keep.sum()) * width + mask_size * (1 + len(marks)) >= bits.numel() * width:
        return None
    return {MASK: pack_mask(keep), VALUES: numbers.reshape(-1)[keep], **marks}


def _narrowed(tensor: Tensor, stored: str) -> Tensor:
    if stored == CODES[tensor.dtype]:
        return tensor
    narrow = tensor.to(DTYPES[stored])
    if not bool((narrow.isfinite() == tensor.isfinite()).all()):
        largest = float(tensor[tensor.isfinite()].abs().max())
        raise ValueError(f"{largest:g} is more than {stored} can hold: use bf16 or fp32 values")
    return narrow + 0.0  # -0.0 becomes 0.0: nothing is exact here, and signs of zeros cost space


def _finite(tensor: Tensor) -> Tensor:
    if not bool(tensor.isfinite().all()):
        raise ValueError("it has NaN or infinite numbers, which int8 cannot hold: use bf16 or fp32 values")
    return tensor


def _check_mask(record: Record, parts: Mapping[str, Tensor]) -> None:
    masks = [parts[MASK], *([parts[NEGATIVE]] if NEGATIVE in parts else [])]
    if any(spare_bits(mask, record.count) for mask in masks):
        raise ValueError("its mask goes on after its last number")
    if count_kept(parts[MASK]) != record.kept:
        raise ValueError(f"its mask keeps {count_kept(parts[MASK]):,} numbers and {record.kept:,} are declared")
    if NEGATIVE in parts and bool((parts[MASK] & parts[NEGATIVE]).any()):
        raise ValueError("a number is kept and a zero at the same time")


def _decode_sparse(out: Tensor, parts: Mapping[str, Tensor]) -> None:
    values, flat = parts[VALUES], out.view(-1)
    done = 0
    for start in range(0, flat.numel(), STRETCH):
        count = min(STRETCH, flat.numel() - start)
        bits, used = spread(parts[MASK], bits_of(values[done:]), count, start=start)
        numbers = bits.view(values.dtype)
        if NEGATIVE in parts:
            numbers[unpack_mask(parts[NEGATIVE], count, start=start)] = -0.0
        flat[start : start + count] = numbers
        done += used


def _decode_rows(out: Tensor, record: Record, parts: Mapping[str, Tensor]) -> None:
    values, scale, width = parts[VALUES].view(-1), parts[SCALE], record.shape[-1]
    if not bool((scale.isfinite() & (scale >= 0)).all()):
        raise ValueError("its scales are not all finite and positive")
    rows, done = out.view(-1, width), 0
    at_once = max(1, STRETCH // width)
    for first in range(0, record.rows, at_once):
        count = (min(first + at_once, record.rows) - first) * width
        if record.kept is None:
            numbers, used = values[done : done + count], count
        else:
            numbers, used = spread(parts[MASK], values[done:], count, start=first * width)
        done += used
        stretch = slice(first, first + at_once)
        rows[stretch] = dequantise_rows(numbers.view(-1, width), scale[stretch], out.dtype)
