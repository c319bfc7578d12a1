"""Masks over all tensors in one launch. Twins: mgpp.functional.mask.mask_ and mgpp.functional.learned.put_mask_on_."""

import triton
import triton.language as tl

from mgpp.kernels.layout import Layout
from mgpp.kernels.table import BLOCK, READABLE, address, find_tensor, read, write


@triton.jit
def _mask(tensors, keeps, others, at, size, ASIDE: tl.constexpr, MASKED: tl.constexpr):
    if ASIDE:
        value = read(tensors, at, size, MASKED)
        write(others, at, size, value, MASKED)
    else:
        value = read(others, at, size, MASKED)
    write(tensors, at, size, tl.where(read(keeps, at, size, MASKED) != 0, value, 0.0), MASKED)


@triton.jit
def _mask_kernel(
    tensor_table, keep_table, other_table, sizes, first_chunk, tensors, chunks,
    TENSOR: tl.constexpr, KEEP: tl.constexpr, OTHER: tl.constexpr, ASIDE: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        values, keeps = address(tensor_table, tensor, TENSOR), address(keep_table, tensor, KEEP)
        others = address(other_table, tensor, OTHER)
        size = tl.load(sizes + tensor)
        start = (chunk - tl.load(first_chunk + tensor)).to(tl.int64) * CHUNK
        for offset in range(0, CHUNK, BLOCK):
            at = start + offset + tl.arange(0, BLOCK)
            if start + offset + BLOCK <= size:
                _mask(values, keeps, others, at, size, ASIDE, False)
            elif start + offset < size:
                _mask(values, keeps, others, at, size, ASIDE, True)


def mask_(layout: Layout, *, aside: bool = False) -> None:
    """The layout's roles: tensors, their masks, and others: tensor ← other ⊙ keep. With `aside` the tensors are copied
    to the others first, and then masked (mgpp.functional.learned.put_mask_on_)."""
    for group in layout.groups:
        table = group.table
        kinds = [READABLE[dtype] for dtype in group.dtypes]
        _mask_kernel[(table.programs(),)](
            *group.addresses, table.sizes, table.first_chunk, len(group.indices), table.chunks,
            TENSOR=kinds[0], KEEP=kinds[1], OTHER=kinds[2], ASIDE=aside, CHUNK=table.chunk, BLOCK=BLOCK, num_warps=4,
        )  # fmt: skip
