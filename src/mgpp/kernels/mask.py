"""Masks laid over all tensors in one launch. Twin: mgpp.functional.mask.mask_."""

import triton
import triton.language as tl

from mgpp.kernels.layout import Layout
from mgpp.kernels.select_kernels import read, write
from mgpp.kernels.table import BLOCK, READABLE, address, find_tensor


@triton.jit
def _mask(tensors, keeps, sources, at, size, MASKED: tl.constexpr):
    kept = tl.where(read(keeps, at, size, MASKED) != 0, read(sources, at, size, MASKED), 0.0)
    write(tensors, at, size, kept, MASKED)


@triton.jit
def _mask_kernel(
    tensor_table, keep_table, source_table, sizes, first_chunk, tensors, chunks,
    TENSOR: tl.constexpr, KEEP: tl.constexpr, SOURCE: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        values, keeps = address(tensor_table, tensor, TENSOR), address(keep_table, tensor, KEEP)
        sources = address(source_table, tensor, SOURCE)
        size = tl.load(sizes + tensor)
        start = (chunk - tl.load(first_chunk + tensor)).to(tl.int64) * CHUNK
        for offset in range(0, CHUNK, BLOCK):
            at = start + offset + tl.arange(0, BLOCK)
            if start + offset + BLOCK <= size:
                _mask(values, keeps, sources, at, size, False)
            elif start + offset < size:
                _mask(values, keeps, sources, at, size, True)


def mask_(layout: Layout) -> None:
    """tensor ← source ⊙ keep. The layout's roles: the tensors, their masks, and their sources."""
    for group in layout.groups:
        table = group.table
        kinds = [READABLE[dtype] for dtype in group.dtypes]
        _mask_kernel[(table.programs(),)](
            *group.addresses, table.sizes, table.first_chunk, len(group.indices), table.chunks,
            TENSOR=kinds[0], KEEP=kinds[1], SOURCE=kinds[2], CHUNK=table.chunk, BLOCK=BLOCK, num_warps=4,
        )  # fmt: skip
