"""The prior over all weights in one launch: its gradient, or its pull after the optimizer's step.

Twins: mgpp.functional.prior.add_prior_gradient_ and shrink_by_prior_.
"""

import math

import triton
import triton.language as tl
from torch import Tensor

from mgpp.functional.prior import least_size, log_odds
from mgpp.kernels.layout import Layout
from mgpp.kernels.table import BLOCK, TRITON, address, find_tensor, read, write

_TINY = tl.constexpr(1.1754943508222875e-38)  # float32's least normal number


@triton.jit
def spike_and_slab(weight, c1, c2, inv_spike, inv_slab):
    """g/σ0² + (1-g)/σ1²: what a weight is multiplied by to give the gradient of -log prior."""
    in_spike = 1.0 / (1.0 + tl.exp(c2 * weight * weight + c1))
    return in_spike * (inv_spike - inv_slab) + inv_slab


@triton.jit
def shrink(weight, spread, scale, most, c1, c2, inv_spike, inv_slab, LEAST: tl.constexpr):
    """What the decoupled prior leaves of a weight; `spread` is √v̂ + ε, `scale` is lr·η/n, and it moves by scale·`most`
    at most."""
    # Comparisons, not tl.minimum and tl.maximum, which would lose a NaN.
    spread = tl.where(spread < _TINY, _TINY, spread)  # 0/0 where a weight has had no gradient yet and ε is 0
    share = scale * spike_and_slab(weight, c1, c2, inv_spike, inv_slab) / spread
    size = tl.abs(weight)
    limit = scale * most / tl.where(size < _TINY, _TINY, size)
    share = tl.where(share > limit, limit, share)
    shrunk = size * (1 - tl.where(share > 1, 1.0, share))
    # A weight that is not zero stays so: only pruning makes zeros.
    least = tl.where(size > LEAST, LEAST, size)
    shrunk = tl.where(shrunk < least, least, shrunk)
    return tl.where(weight < 0, -shrunk, shrunk)


@triton.jit
def _add(weights, grads, offset, size, scale, c1, c2, inv_spike, inv_slab, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    at = offset + tl.arange(0, BLOCK)
    # A mask of unknown alignment makes every load scalar, so only a tensor's last block has one.
    if MASKED:
        inside = at < size
        w = tl.load(weights + at, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(grads + at, mask=inside, other=0.0).to(tl.float32)
    else:
        w = tl.load(weights + at).to(tl.float32)
        g = tl.load(grads + at).to(tl.float32)
    g += scale * (w * spike_and_slab(w, c1, c2, inv_spike, inv_slab))
    if MASKED:
        tl.store(grads + at, g, mask=at < size)
    else:
        tl.store(grads + at, g)


@triton.jit
def _add_prior_gradient_kernel(
    weight_table,
    grad_table,
    sizes,
    first_chunk,
    tensors,
    chunks,
    scale_at,
    scale,
    c1,
    c2,
    inv_spike,
    inv_slab,
    HAS_SCALE: tl.constexpr,
    WEIGHT: tl.constexpr,
    GRAD: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if HAS_SCALE:
        scale *= tl.load(scale_at).to(tl.float32)
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        weights, grads = address(weight_table, tensor, WEIGHT), address(grad_table, tensor, GRAD)
        size = tl.load(sizes + tensor)
        start = (chunk - tl.load(first_chunk + tensor)).to(tl.int64) * CHUNK
        for offset in range(0, CHUNK, BLOCK):
            if start + offset + BLOCK <= size:
                _add(weights, grads, start + offset, size, scale, c1, c2, inv_spike, inv_slab, False, BLOCK)
            elif start + offset < size:
                _add(weights, grads, start + offset, size, scale, c1, c2, inv_spike, inv_slab, True, BLOCK)


def add_prior_gradient_(
    layout: Layout, *, scale: float | Tensor, slab_prob: float, spike_var: float, slab_var: float
) -> None:
    """grad += scale · (-∇ log π(w)) for every pair of the layout (weights, gradients), in place."""
    c1, c2 = log_odds(slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var)
    for group in layout.groups:
        table = group.table
        _add_prior_gradient_kernel[(table.programs(),)](
            *group.addresses,
            table.sizes,
            table.first_chunk,
            len(group.indices),
            table.chunks,
            scale if isinstance(scale, Tensor) else table.sizes,  # not read without HAS_SCALE
            1.0 if isinstance(scale, Tensor) else scale,
            c1,
            c2,
            1 / spike_var,
            1 / slab_var,
            HAS_SCALE=isinstance(scale, Tensor),
            WEIGHT=TRITON[group.dtypes[0]],
            GRAD=TRITON[group.dtypes[1]],
            CHUNK=table.chunk,
            BLOCK=BLOCK,
            num_warps=4,
        )


@triton.jit
def _shrink(
    weights, squares, at, size, scale, most, correction, eps, c1, c2, inv_spike, inv_slab,
    LEAST: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    w, v = read(weights, at, size, MASKED), read(squares, at, size, MASKED)
    spread = tl.sqrt_rn(tl.div_rn(v, correction)) + eps
    write(weights, at, size, shrink(w, spread, scale, most, c1, c2, inv_spike, inv_slab, LEAST), MASKED)


@triton.jit
def _one_or_each(one, each, place, EACH: tl.constexpr):
    if EACH:
        one = tl.load(each + place)
    return one


@triton.jit
def _shrink_by_prior_kernel(
    weight_table, square_table, sizes, first_chunk, tensors, chunks, number,
    scales, corrections, floors, scale_of_all, correction_of_all, eps_of_all, most, c1, c2, inv_spike, inv_slab,
    EACH_SCALE: tl.constexpr, EACH_CORRECTION: tl.constexpr, EACH_EPS: tl.constexpr,
    WEIGHT: tl.constexpr, SQUARE: tl.constexpr, LEAST: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        weights, squares = address(weight_table, tensor, WEIGHT), address(square_table, tensor, SQUARE)
        size, place = tl.load(sizes + tensor), tl.load(number + tensor)
        scale = _one_or_each(scale_of_all, scales, place, EACH_SCALE)
        correction = _one_or_each(correction_of_all, corrections, place, EACH_CORRECTION)
        eps = _one_or_each(eps_of_all, floors, place, EACH_EPS)
        start = (chunk - tl.load(first_chunk + tensor)).to(tl.int64) * CHUNK
        for offset in range(0, CHUNK, BLOCK):
            at = start + offset + tl.arange(0, BLOCK)
            if start + offset + BLOCK <= size:
                _shrink(
                    weights, squares, at, size, scale, most, correction, eps, c1, c2, inv_spike, inv_slab, LEAST, False
                )  # fmt: skip
            elif start + offset < size:
                _shrink(
                    weights, squares, at, size, scale, most, correction, eps, c1, c2, inv_spike, inv_slab, LEAST, True
                )  # fmt: skip


def shrink_by_prior_(
    layout: Layout,
    *,
    scale: float | Tensor,
    correction: float | Tensor,
    eps: float | Tensor,
    slab_prob: float,
    spike_var: float,
    slab_var: float,
    most: float = math.inf,
) -> None:
    """The layout's roles: weights, second moments. Each number is one for all tensors, or a float32 tensor on their
    device with one for each, in the order of the layout's lists."""
    c1, c2 = log_odds(slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var)
    numbers = (scale, correction, eps)
    has_each = [isinstance(value, Tensor) for value in numbers]
    for group in layout.groups:
        table = group.table
        _shrink_by_prior_kernel[(table.programs(),)](
            *group.addresses, table.sizes, table.first_chunk, len(group.indices), table.chunks, group.number,
            *[value if isinstance(value, Tensor) else table.sizes for value in numbers],  # not read without EACH_...
            *[1.0 if isinstance(value, Tensor) else float(value) for value in numbers],
            most, c1, c2, 1 / spike_var, 1 / slab_var,
            EACH_SCALE=has_each[0], EACH_CORRECTION=has_each[1], EACH_EPS=has_each[2],
            WEIGHT=TRITON[group.dtypes[0]], SQUARE=TRITON[group.dtypes[1]], LEAST=least_size(group.dtypes[0]),
            CHUNK=table.chunk, BLOCK=BLOCK, num_warps=4,
        )  # fmt: skip
