"""The sensitivity's moments of all weights in one launch. Twin: mgpp.functional.score.observe_sensitivity_."""

import triton
import triton.language as tl

from mgpp.kernels.layout import Layout
from mgpp.kernels.table import BLOCK, TRITON, address, find_tensor, read, write


@triton.jit
def _observe(
    weights, grads, windows, means, spreads, at, size, inside, beta1, beta2,
    ENDS: tl.constexpr, SPREAD: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    now = tl.abs(read(weights, at, size, MASKED) * read(grads, at, size, MASKED))
    window = read(windows, at, size, MASKED)
    if ENDS:
        mean = beta1 * read(means, at, size, MASKED) + (1 - beta1) * window
        write(means, at, size, mean, MASKED)
        if SPREAD:
            spread = beta2 * read(spreads, at, size, MASKED) + (1 - beta2) * tl.abs(window - mean)
            write(spreads, at, size, spread, MASKED)
        write(windows, at, size, now, MASKED)
    else:
        write(windows, at, size, (window * inside + now) / (inside + 1), MASKED)


@triton.jit(do_not_specialize=["inside"])
def _observe_kernel(
    weight_table, grad_table, window_table, mean_table, spread_table, sizes, first_chunk, tensors, chunks,
    inside, beta1, beta2,
    WEIGHT: tl.constexpr, GRAD: tl.constexpr, MOMENT: tl.constexpr, ENDS: tl.constexpr, SPREAD: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        weights, grads = address(weight_table, tensor, WEIGHT), address(grad_table, tensor, GRAD)
        windows, means = address(window_table, tensor, MOMENT), address(mean_table, tensor, MOMENT)
        spreads = address(spread_table, tensor, MOMENT)
        size = tl.load(sizes + tensor)
        start = (chunk - tl.load(first_chunk + tensor)).to(tl.int64) * CHUNK
        for offset in range(0, CHUNK, BLOCK):
            at = start + offset + tl.arange(0, BLOCK)
            if start + offset + BLOCK <= size:
                _observe(
                    weights, grads, windows, means, spreads, at, size, inside, beta1, beta2, ENDS, SPREAD, False
                )  # fmt: skip
            elif start + offset < size:
                _observe(
                    weights, grads, windows, means, spreads, at, size, inside, beta1, beta2, ENDS, SPREAD, True
                )  # fmt: skip


def observe_sensitivity_(
    layout: Layout, *, t: int, every: int, beta1: float, beta2: float = 0.0, spread: bool = True
) -> None:
    """The layout's roles: weights, gradients, windows, smoothed, and the uncertainties, which only `spread` reads."""
    for group in layout.groups:
        table, dtypes = group.table, group.dtypes
        _observe_kernel[(table.programs(),)](
            *group.addresses, table.sizes, table.first_chunk, len(group.indices), table.chunks,
            t % every, beta1, beta2,
            WEIGHT=TRITON[dtypes[0]], GRAD=TRITON[dtypes[1]], MOMENT=TRITON[dtypes[2]],
            ENDS=t % every == 0, SPREAD=spread, CHUNK=table.chunk, BLOCK=BLOCK, num_warps=4,
        )  # fmt: skip
