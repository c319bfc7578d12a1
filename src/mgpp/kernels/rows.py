"""Rows zeroed, and all zeros counted, in one launch over all matrices. Twin: mgpp.functional.rows.zero_rows_."""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mgpp.kernels.layout import Layout
from mgpp.kernels.table import BLOCK, TRITON, address, find_tensor, read, write


@triton.jit
def _zero(weights, gone, at, row, size, MASKED: tl.constexpr):
    if MASKED:
        goes = tl.load(gone + row, mask=at < size, other=0)
    else:
        goes = tl.load(gone + row)
    kept = tl.where(goes != 0, 0.0, read(weights, at, size, MASKED))
    write(weights, at, size, kept, MASKED)
    zero = kept == 0
    if MASKED:
        zero &= at < size
    return tl.sum(zero.to(tl.int32))


@triton.jit
def _zero_rows_kernel(
    weight_table, sizes, first_chunk, tensors, chunks, widths, first_rows, number, gone, zeros,
    WEIGHT: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        weights, size = address(weight_table, tensor, WEIGHT), tl.load(sizes + tensor)
        width, first_row = tl.load(widths + tensor), tl.load(first_rows + tensor)
        start = (chunk - tl.load(first_chunk + tensor)).to(tl.int64) * CHUNK
        # Every weight is divided by the width: in 32 bits, counted from the row in which the chunk starts.
        first_row += start // width
        before, narrow = (start % width).to(tl.int32), width.to(tl.int32)
        zero = tl.zeros((), tl.int32)
        for offset in range(0, CHUNK, BLOCK):
            at = start + offset + tl.arange(0, BLOCK)
            row = first_row + (before + offset + tl.arange(0, BLOCK)) // narrow
            if start + offset + BLOCK <= size:
                zero += _zero(weights, gone, at, row, size, False)
            elif start + offset < size:
                zero += _zero(weights, gone, at, row, size, True)
        tl.atomic_add(zeros + tl.load(number + tensor), zero.to(tl.int64), sem="relaxed")


def zero_rows_(layout: Layout, shapes: Sequence[torch.Size], gone: Tensor, scratch: dict[str, Any]) -> Tensor:
    """Zero the rows that are gone; returns how many zeros each matrix has. The layout's one role: the weights."""
    zeros = torch.zeros(len(shapes), dtype=torch.int64, device=layout.device)
    flags = gone.view(torch.int8)
    for group, (widths, first_rows) in zip(layout.groups, _places(layout, shapes, scratch), strict=True):
        table = group.table
        _zero_rows_kernel[(table.programs(),)](
            *group.addresses, table.sizes, table.first_chunk, len(group.indices), table.chunks,
            widths, first_rows, group.number, flags, zeros,
            WEIGHT=TRITON[group.dtypes[0]], CHUNK=table.chunk, BLOCK=BLOCK, num_warps=4,
        )  # fmt: skip
    return zeros


def _places(layout: Layout, shapes: Sequence[torch.Size], scratch: dict[str, Any]) -> list[tuple[Tensor, Tensor]]:
    """For each group its matrices' widths and first rows; sent to the device once."""
    known = scratch.get("rows")
    if known is None or known[0] is not layout:
        first = [sum(shape[0] for shape in shapes[:i]) for i in range(len(shapes))]
        groups = []
        for group in layout.groups:
            numbers = [[max(1, shapes[i][1]) for i in group.indices], [first[i] for i in group.indices]]
            widths, first_rows = torch.tensor(numbers, dtype=torch.int64, device=layout.device)
            groups.append((widths, first_rows))
        known = scratch["rows"] = (layout, groups)
    return known[1]
