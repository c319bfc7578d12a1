"""Learned scores, and the masks that they make, by the fastest way there is: on a GPU a few launches, and no wait."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from mgpp import kernels
from mgpp.functional import learned as plain
from mgpp.functional import mask as plain_mask
from mgpp.functional.ranks import ALONE, Ranks
from mgpp.functional.select import Cut
from mgpp.kernels import Promise, Scratch


def learn_scores_(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    latents: Sequence[Tensor],
    scores: Sequence[Tensor],
    means: Sequence[Tensor],
    squares: Sequence[Tensor],
    keeps: Sequence[Tensor] | None = None,
    *,
    t: int,
    lr: float,
    grad_scale: float | Tensor = 1.0,
    pressure: float = 0.0,
    key: str = "learned",
    scratch: Scratch,
) -> None:
    """See mgpp.functional.learned.learn_scores_; where there are masks, take_mask_off_ follows in the same pass."""
    numbers: dict[str, Any] = {"t": t, "lr": lr, "grad_scale": grad_scale, "pressure": pressure}
    lists = (grads, latents, scores, means, squares, scores if keeps is None else keeps, weights)
    layout = kernels._laid_out(key, lists, scratch, fresh=[0])
    if layout is not None:
        from mgpp.kernels import learned

        learned.learn_scores_(layout, masked=keeps is not None, **numbers)
        return
    plain.learn_scores_(grads, latents, scores, means, squares, **numbers)
    if keeps is not None:
        kernels.mask_(grads, keeps, of="gradients", scratch=scratch)
        for weight, latent in zip(weights, latents, strict=True):
            weight.copy_(latent)


def put_mask_on_(
    weights: Sequence[Tensor], keeps: Sequence[Tensor], latents: Sequence[Tensor], *, scratch: Scratch
) -> None:
    """See mgpp.functional.learned.put_mask_on_."""
    layout = kernels._laid_out("latents", (weights, keeps, latents), scratch)
    if layout is not None:
        from mgpp.kernels import mask

        mask.mask_(layout, aside=True)
        return
    for weight, latent in zip(weights, latents, strict=True):
        latent.copy_(weight)
    kernels.mask_(weights, keeps, scratch=scratch)


def mask_smallest_(
    masks: Sequence[Tensor],
    k: int | Sequence[int],
    *,
    sizes: Sequence[int],
    score: Callable[..., Tensor],
    inputs: Sequence[Sequence[Tensor]],
    ranks: Ranks = ALONE,
    scratch: Scratch,
) -> Cut | Promise | None:
    """See mgpp.functional.mask.mask_smallest_ for one k, and mask_smallest_of_each_ for as many as there are masks.

    `inputs` are those of mgpp.functional.learned.learned_score, which `score(mask, *inputs)` must be.
    """
    counts, together = ([k], True) if isinstance(k, int) else (list(k), False)
    layout = _layout(masks, inputs, ranks, scratch)
    if layout is not None:
        from mgpp.kernels import mask_select

        return mask_select.mask_smallest_(layout, counts, together=together, scratch=scratch)
    if together:
        cut = plain_mask.mask_smallest_(masks, counts[0], score=score, inputs=inputs, ranks=ranks)
    else:
        cut = plain_mask.mask_smallest_of_each_(masks, counts, sizes=sizes, score=score, inputs=inputs, ranks=ranks)
    return Cut(value=float(cut), below=sum(counts), ties=0)


def mask_up_to_(
    masks: Sequence[Tensor],
    value: float,
    *,
    inputs: Sequence[Sequence[Tensor]],
    ranks: Ranks = ALONE,
    scratch: Scratch,
) -> Cut | Promise | None:
    """See mgpp.functional.mask.mask_up_to_. `inputs`: the latent weight and the score of each."""
    layout = _layout(masks, inputs, ranks, scratch)
    if layout is not None:
        from mgpp.kernels import mask_select

        return mask_select.mask_up_to_(layout, value, scratch=scratch)
    plain_mask.mask_up_to_(masks, value, scores=[score for _, score in inputs])
    return Cut(value=value, below=plain_mask.count_zeros(masks, ranks), ties=0)


def _layout(masks: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], ranks: Ranks, scratch: Scratch) -> Any:
    if ranks.size > 1:
        return None
    latents, scores = (list(column) for column in zip(*inputs, strict=True))
    return kernels._laid_out("mask selection's", (masks, latents, scores), scratch)
