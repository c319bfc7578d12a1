"""The prior's gradient over all weights in one launch. Twin: mgpp.functional.prior.add_prior_gradient_."""

import triton
import triton.language as tl
from torch import Tensor

from mgpp.functional.prior import log_odds
from mgpp.kernels.layout import Layout
from mgpp.kernels.table import BLOCK, TRITON, address, find_tensor

_TINY = tl.constexpr(1.1754943508222875e-38)  # float32's least normal number


@triton.jit
def spike_and_slab(weight, c1, c2, inv_spike, inv_slab):
    """g/σ0² + (1-g)/σ1²: what a weight is multiplied by to give the gradient of -log prior."""
    in_spike = 1.0 / (1.0 + tl.exp(c2 * weight * weight + c1))
    return in_spike * (inv_spike - inv_slab) + inv_slab


@triton.jit
def shrink(weight, spread, scale, c1, c2, inv_spike, inv_slab, LEAST: tl.constexpr):
    """What the decoupled prior leaves of a weight; `spread` is √v̂ + ε, `scale` is lr·η/n."""
    # Comparisons, not tl.minimum and tl.maximum, which would lose a NaN.
    spread = tl.where(spread < _TINY, _TINY, spread)  # 0/0 where a weight has had no gradient yet and ε is 0
    share = scale * spike_and_slab(weight, c1, c2, inv_spike, inv_slab) / spread
    size = tl.abs(weight)
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
