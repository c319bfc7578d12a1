"""AdamW, the prior and an event's count in one pass over the tensors. Twin: mgpp.functional.adamw.adamw_."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mgpp.functional.adamw import Adam, Pull
from mgpp.functional.prior import least_size, log_odds
from mgpp.kernels.layout import Layout
from mgpp.kernels.prior import shrink, spike_and_slab
from mgpp.kernels.select import WINDOW, Selection
from mgpp.kernels.select_kernels import (
    count_block,
    curvature,
    key_of,
    nothing_counted,
    nothing_packed,
    only_inside,
    record_count,
    unpack,
)
from mgpp.kernels.table import BLOCK, TRITON, address, find_tensor, part_of, read, span_of


@triton.jit
def _step(
    weights, grads, means, squares, at, size, is_target, low, floor, window,
    lr, beta1, beta2, eps, decay, correction1, correction2, scale, most, c1, c2, inv_spike, inv_slab,
    PRIOR: tl.constexpr, SCORE: tl.constexpr, SHIFT: tl.constexpr, WINDOW: tl.constexpr, NARROW: tl.constexpr,
    LEAST: tl.constexpr, WEIGHT: tl.constexpr, SQUARE: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    w, g = read(weights, at, size, MASKED), read(grads, at, size, MASKED)
    m, v = read(means, at, size, MASKED), read(squares, at, size, MASKED)
    if PRIOR == "coupled":
        pull = w * spike_and_slab(w, c1, c2, inv_spike, inv_slab)
        g += tl.where(is_target, scale * pull, 0.0)
    m += (g - m) * (1 - beta1)
    v = beta2 * v + (1 - beta2) * g * g
    deviation = tl.sqrt_rn(tl.div_rn(v, correction2))
    spread = deviation + eps
    w = w * (1 - lr * decay) - (lr / correction1) * m / spread
    if PRIOR == "decoupled":
        w = tl.where(is_target, shrink(w, spread, lr * scale, most, c1, c2, inv_spike, inv_slab, LEAST), w)
    if MASKED:
        tl.store(weights + at, w, mask=at < size)
        tl.store(means + at, m, mask=at < size)
        tl.store(squares + at, v, mask=at < size)
    else:
        tl.store(weights + at, w)
        tl.store(means + at, m)
        tl.store(squares + at, v)
    counted = nothing_packed(NARROW, BLOCK)
    if SCORE != "none":  # noqa: SIM102 (one is known when the kernel is compiled, the other when it runs)
        if is_target:
            score = w.to(WEIGHT).to(tl.float32)  # as the mask will read it
            if SCORE == "curvature":
                score = curvature(score, v.to(SQUARE).to(tl.float32), correction2)
            key = key_of(score, SHIFT)
            if MASKED:
                key = only_inside(key, at, size, NARROW)
            counted += count_block(key, low, floor, window, WINDOW, NARROW, BLOCK)
    return counted


@triton.jit(do_not_specialize=["lr_of_others", "lr_of_targets", "correction1", "correction2", "scale", "most"])
def _adamw_kernel(
    weight_table, grad_table, mean_table, square_table, sizes, first_chunk, tensors, chunks, is_target_table,
    state, low_at, window, lr_of_others, lr_of_targets,
    beta1, beta2, eps, decay, correction1, correction2, scale, most, c1, c2, inv_spike, inv_slab,
    WEIGHT: tl.constexpr, GRAD: tl.constexpr, MEAN: tl.constexpr, SQUARE: tl.constexpr,
    PRIOR: tl.constexpr, SCORE: tl.constexpr, SHIFT: tl.constexpr, WINDOW: tl.constexpr, NARROW: tl.constexpr,
    LEAST: tl.constexpr, CHUNK: tl.constexpr, SPAN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    WIDE: tl.constexpr = NARROW or SCORE == "none"
    counted = nothing_counted(NARROW, BLOCK)
    low, floor = tl.load(low_at).to(tl.int32), tl.load(low_at + 1).to(tl.int32)
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        start, size = part_of(sizes, first_chunk, tensor, chunk, CHUNK)
        weights = address(weight_table, tensor, WEIGHT, WIDE) + start
        grads = address(grad_table, tensor, GRAD, WIDE) + start
        means = address(mean_table, tensor, MEAN, WIDE) + start
        squares = address(square_table, tensor, SQUARE, WIDE) + start
        is_target = tl.load(is_target_table + tensor) != 0
        lr = tl.where(is_target, lr_of_targets, lr_of_others)
        for span in range(0, CHUNK, SPAN):
            packed = nothing_packed(NARROW, BLOCK)
            for offset in range(span, span + SPAN, BLOCK):
                at = offset + tl.arange(0, BLOCK)
                if offset + BLOCK <= size:
                    packed += _step(
                        weights, grads, means, squares, at, size, is_target, low, floor, window,
                        lr, beta1, beta2, eps, decay, correction1, correction2, scale, most,
                        c1, c2, inv_spike, inv_slab,
                        PRIOR, SCORE, SHIFT, WINDOW, NARROW, LEAST, WEIGHT, SQUARE, BLOCK, False,
                    )  # fmt: skip
                elif offset < size:
                    packed += _step(
                        weights, grads, means, squares, at, size, is_target, low, floor, window,
                        lr, beta1, beta2, eps, decay, correction1, correction2, scale, most,
                        c1, c2, inv_spike, inv_slab,
                        PRIOR, SCORE, SHIFT, WINDOW, NARROW, LEAST, WEIGHT, SQUARE, BLOCK, True,
                    )  # fmt: skip
            counted += unpack(packed, NARROW)
    if SCORE != "none":
        record_count(counted, state, window, WINDOW, NARROW)


def flags_of(layout: Layout, targets: Sequence[bool], scratch: dict[str, Any]) -> list[Tensor]:
    """For each group which of its tensors are targets; sent to the device only when that has changed."""
    known = scratch.get("flags")
    if known is None or known[0] is not layout or known[1] != targets:
        flags = [
            torch.tensor([targets[i] for i in group.indices], dtype=torch.int32, device=layout.device)
            for group in layout.groups
        ]
        known = scratch["flags"] = (layout, list(targets), flags)
    flags_of_each: list[Tensor] = known[2]
    return flags_of_each


def adamw_(
    layout: Layout,
    flags: Sequence[Tensor],
    adam: Adam,
    pull: Pull | None = None,
    *,
    selection: Selection | None = None,
) -> None:
    """One launch a group; the layout's roles: weights, gradients, means, squares. With a `selection`, the targets' new
    scores are counted into its window on the way, so that the event that follows need not read them once more.
    Gradients are left as they are."""
    c1, c2 = (0.0, 0.0) if pull is None else log_odds(**pull.shape)
    if selection is not None:
        selection.holds_count = True
    for group, is_target in zip(layout.groups, flags, strict=True):
        table, dtypes = group.table, group.dtypes
        counters = (selection.state, selection.low, selection.window) if selection is not None else (table.sizes,) * 3
        _adamw_kernel[(table.programs(),)](
            *group.addresses, table.sizes, table.first_chunk, len(group.indices), table.chunks, is_target, *counters,
            adam.lr, adam.of_targets.lr, adam.beta1, adam.beta2, adam.eps, adam.weight_decay,
            adam.correction1, adam.correction2,
            0.0 if pull is None else pull.scale, math.inf if pull is None else pull.most, c1, c2,
            0.0 if pull is None else 1 / pull.spike_var, 0.0 if pull is None else 1 / pull.slab_var,
            WEIGHT=TRITON[dtypes[0]], GRAD=TRITON[dtypes[1]], MEAN=TRITON[dtypes[2]], SQUARE=TRITON[dtypes[3]],
            PRIOR="none" if pull is None else "decoupled" if pull.decoupled else "coupled",
            SCORE="none" if selection is None else selection.score,
            SHIFT=selection.shift if selection is not None else 0, WINDOW=WINDOW,
            NARROW=selection is not None and selection.narrow,
            LEAST=least_size(dtypes[0]),
            CHUNK=table.chunk, SPAN=span_of(table), BLOCK=BLOCK, num_warps=4,
        )  # fmt: skip
