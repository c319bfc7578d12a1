"""A step of learned scores and of their mask over all weights in one launch. Twin: mgpp.functional.learned."""

import triton
import triton.language as tl
from torch import Tensor

from mgpp.kernels.layout import Layout
from mgpp.kernels.table import BLOCK, READABLE, address, find_tensor, read, write

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8  # mgpp.functional.adam's


@triton.jit
def _learn(
    grads, latents, scores, means, squares, keeps, weights, at, size,
    lr, pressure, scale, correction1, correction2, one_less_beta1, beta2, one_less_beta2, eps,
    PRESSED: tl.constexpr, MASKED_WEIGHTS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    grad, latent = read(grads, at, size, MASKED), read(latents, at, size, MASKED)
    score = read(scores, at, size, MASKED)
    slope = grad * latent / scale
    if PRESSED:
        sigma = 1.0 / (1.0 + tl.exp(-score))
        slope += pressure * (sigma * (1.0 - sigma))
    mean = read(means, at, size, MASKED)
    mean += (slope - mean) * one_less_beta1
    square = beta2 * read(squares, at, size, MASKED) + one_less_beta2 * slope * slope
    score -= (lr / correction1) * (mean / (tl.sqrt_rn(tl.div_rn(square, correction2)) + eps))
    write(scores, at, size, score, MASKED)
    write(means, at, size, mean, MASKED)
    write(squares, at, size, square, MASKED)
    if MASKED_WEIGHTS:
        kept = read(keeps, at, size, MASKED) != 0
        write(grads, at, size, tl.where(kept, grad, 0.0), MASKED)
        write(weights, at, size, latent, MASKED)


@triton.jit(do_not_specialize=["lr", "pressure", "scale", "correction1", "correction2"])
def _learn_kernel(
    grad_table, latent_table, score_table, mean_table, square_table, keep_table, weight_table,
    sizes, first_chunk, tensors, chunks, scale_at,
    lr, pressure, scale, correction1, correction2, one_less_beta1, beta2, one_less_beta2, eps,
    GRAD: tl.constexpr, LATENT: tl.constexpr, SCORE: tl.constexpr, MEAN: tl.constexpr, SQUARE: tl.constexpr,
    KEEP: tl.constexpr, WEIGHT: tl.constexpr, HAS_SCALE: tl.constexpr, PRESSED: tl.constexpr,
    MASKED_WEIGHTS: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    if HAS_SCALE:
        scale = tl.load(scale_at).to(tl.float32)
    for chunk in range(tl.program_id(0), chunks, tl.num_programs(0)):
        tensor = find_tensor(first_chunk, tensors, chunk)
        grads, latents = address(grad_table, tensor, GRAD), address(latent_table, tensor, LATENT)
        scores, means = address(score_table, tensor, SCORE), address(mean_table, tensor, MEAN)
        squares, keeps = address(square_table, tensor, SQUARE), address(keep_table, tensor, KEEP)
        weights = address(weight_table, tensor, WEIGHT)
        size = tl.load(sizes + tensor)
        start = (chunk - tl.load(first_chunk + tensor)).to(tl.int64) * CHUNK
        for offset in range(0, CHUNK, BLOCK):
            at = start + offset + tl.arange(0, BLOCK)
            if start + offset + BLOCK <= size:
                _learn(
                    grads, latents, scores, means, squares, keeps, weights, at, size,
                    lr, pressure, scale, correction1, correction2, one_less_beta1, beta2, one_less_beta2, eps,
                    PRESSED, MASKED_WEIGHTS, False,
                )  # fmt: skip
            elif start + offset < size:
                _learn(
                    grads, latents, scores, means, squares, keeps, weights, at, size,
                    lr, pressure, scale, correction1, correction2, one_less_beta1, beta2, one_less_beta2, eps,
                    PRESSED, MASKED_WEIGHTS, True,
                )  # fmt: skip


def learn_scores_(
    layout: Layout, *, t: int, lr: float, grad_scale: float | Tensor = 1.0, pressure: float = 0.0, masked: bool
) -> None:
    """The layout's roles: gradients, latents, scores, their means and squares; and where the weights are `masked` their
    masks and themselves, to be taken off on the way (without, any tensors in their place)."""
    has_scale = isinstance(grad_scale, Tensor)
    for group in layout.groups:
        table = group.table
        kinds = [READABLE[dtype] for dtype in group.dtypes]
        _learn_kernel[(table.programs(),)](
            *group.addresses, table.sizes, table.first_chunk, len(group.indices), table.chunks,
            grad_scale if has_scale else table.sizes,  # not read without HAS_SCALE
            lr, pressure, 1.0 if has_scale else grad_scale,
            1 - BETA1**t, 1 - BETA2**t, 1 - BETA1, BETA2, 1 - BETA2, EPS,
            GRAD=kinds[0], LATENT=kinds[1], SCORE=kinds[2], MEAN=kinds[3], SQUARE=kinds[4], KEEP=kinds[5],
            WEIGHT=kinds[6], HAS_SCALE=has_scale, PRESSED=pressure != 0, MASKED_WEIGHTS=masked,
            CHUNK=table.chunk, BLOCK=BLOCK, num_warps=4,
        )  # fmt: skip
