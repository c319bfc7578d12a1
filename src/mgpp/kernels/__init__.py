"""Fast twins of `functional/`: same names, same results. Each call takes the fastest way there is for its tensors.

`scratch` is a dict that the caller keeps: tables, windows and predictions from call to call. Losing it costs time,
never exactness.
"""

import functools
import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from mgpp.functional import adamw as plain_adamw
from mgpp.functional import mask as plain_mask
from mgpp.functional import prior as plain_prior
from mgpp.functional import score as plain_score
from mgpp.functional import select as plain_select
from mgpp.functional.adamw import Adam, Pull
from mgpp.functional.ranks import ALONE, Ranks
from mgpp.functional.score import magnitude
from mgpp.functional.select import Cut
from mgpp.kernels import cpu, cpu_step, shards
from mgpp.kernels.arriving import Arriving, is_capturing
from mgpp.kernels.plan import Count, Plan, Stepped

if TYPE_CHECKING:
    from mgpp.kernels.layout import Layout, Lists

__all__ = [
    "Arriving",
    "Count",
    "Plan",
    "Promise",
    "Scratch",
    "Stepped",
    "adamw_",
    "add_prior_gradient_",
    "count_ahead",
    "is_capturing",
    "mask_",
    "observe_sensitivity_",
    "shrink_by_prior_",
    "zero_smallest_",
]

Scratch = dict[str, Any]


class Promise(Protocol):
    """An event's numbers on their way from the device."""

    def ready(self) -> bool: ...

    def cut(self) -> Cut: ...

    def zeros(self) -> list[int]: ...


def _laid_out(key: str, lists: "Lists", scratch: Scratch, *, fresh: Sequence[int] = ()) -> "Layout | None":
    """Can these tensors be taken in one launch? They lie on a GPU, Triton is there, and they are plain enough."""
    if not lists[0] or not lists[0][0].is_cuda or not _has_triton():
        return None
    from mgpp.kernels.layout import lay_out

    return lay_out(key, lists, scratch, fresh=fresh)


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def add_prior_gradient_(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    *,
    scale: float | Tensor,
    slab_prob: float,
    spike_var: float,
    slab_var: float,
    scratch: Scratch,
) -> None:
    """See mgpp.functional.prior.add_prior_gradient_."""
    shape = {"slab_prob": slab_prob, "spike_var": spike_var, "slab_var": slab_var}
    layout = _laid_out("prior", (weights, grads), scratch, fresh=[1])
    if layout is not None:
        from mgpp.kernels import prior

        prior.add_prior_gradient_(layout, scale=scale, **shape)
    elif cpu.supports(weights, grads):
        cpu.add_prior_gradient_(weights, grads, scale=float(scale), **shape)
    else:
        plain_prior.add_prior_gradient_(weights, grads, scale=scale, **shape)


def shrink_by_prior_(
    weights: Sequence[Tensor],
    second_moments: Sequence[Tensor],
    *,
    scales: Sequence[float],
    corrections: Sequence[float | Tensor],
    eps: Sequence[float],
    slab_prob: float,
    spike_var: float,
    slab_var: float,
    most: float = math.inf,
    scratch: Scratch,
) -> None:
    """See mgpp.functional.prior.shrink_by_prior_."""
    shape = {"slab_prob": slab_prob, "spike_var": spike_var, "slab_var": slab_var, "most": most}
    layout = None
    if _of_one_shape(weights, second_moments):
        layout = _laid_out("pull", (weights, second_moments), scratch)
    if layout is not None:
        from mgpp.kernels import prior

        scale, correction, floor = (_one_or_each(numbers, layout.device) for numbers in (scales, corrections, eps))
        prior.shrink_by_prior_(layout, scale=scale, correction=correction, eps=floor, **shape)
    elif cpu.supports(weights, second_moments) and _of_one_shape(weights, second_moments):
        cpu_step.shrink_by_prior_(weights, second_moments, scales=scales, corrections=corrections, eps=eps, **shape)
    else:
        plain_prior.shrink_by_prior_(weights, second_moments, scales=scales, corrections=corrections, eps=eps, **shape)


def mask_(
    tensors: Sequence[Tensor],
    keeps: Sequence[Tensor],
    *,
    sources: Sequence[Tensor] | None = None,
    of: str = "weights",
    scratch: Scratch,
) -> None:
    """See mgpp.functional.mask.mask_. `of` tells rows of tensors apart; "gradients" are other ones at every step."""
    layout = _laid_out(
        f"mask of {of}", (tensors, keeps, sources or tensors), scratch, fresh=[0] if of == "gradients" else []
    )
    if layout is not None:
        from mgpp.kernels import mask

        mask.mask_(layout)
    elif all(tensor.device.type == "cpu" for tensor in tensors):
        cpu.mask_(tensors, keeps, sources=sources)
    else:
        plain_mask.mask_(tensors, keeps, sources=sources)


def observe_sensitivity_(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    windows: Sequence[Tensor],
    smoothed: Sequence[Tensor],
    uncertainties: Sequence[Tensor] | None = None,
    *,
    t: int,
    every: int,
    beta1: float,
    beta2: float = 0.0,
    scratch: Scratch,
) -> None:
    """See mgpp.functional.score.observe_sensitivity_."""
    numbers: dict[str, Any] = {"t": t, "every": every, "beta1": beta1, "beta2": beta2}
    lists = (weights, grads, windows, smoothed, uncertainties or smoothed)
    layout = _laid_out("sensitivity", lists, scratch, fresh=[1])
    if layout is not None:
        from mgpp.kernels import score

        score.observe_sensitivity_(layout, spread=uncertainties is not None, **numbers)
    else:
        plain_score.observe_sensitivity_(weights, grads, windows, smoothed, uncertainties, **numbers)


def count_ahead(k: int, kernel: str | None, scratch: Scratch) -> Count | None:
    """A count that the optimizer can take along: possible where the last event aimed at the same k, and so left a
    window in which the next cut will be found."""
    known = scratch.get("selection")
    if known is None or known.aimed_at != k or known.score != kernel or kernel not in ("magnitude", "curvature"):
        return None
    if known.holds_count:  # of a step that broke off before its event
        known.forget_count()
    return Count(selection=known)


def adamw_(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    means: Sequence[Tensor],
    squares: Sequence[Tensor],
    targets: Sequence[bool],
    adam: Adam,
    pull: Pull | None = None,
    *,
    count: Count | None = None,
    scratch: Scratch,
) -> None:
    """See mgpp.functional.adamw.adamw_."""
    layout = _laid_out("adamw", (weights, grads, means, squares), scratch, fresh=[1])
    if layout is None:
        parts = cpu_step.FAST if cpu.supports(weights, grads, means, squares) else plain_adamw.READABLE
        plain_adamw.adamw_(weights, grads, means, squares, targets, adam, pull, parts=parts)
        return
    from mgpp.kernels import adamw

    flags = adamw.flags_of(layout, targets, scratch)
    adamw.adamw_(layout, flags, adam, pull, selection=None if count is None else count.selection)
    if count is not None:
        count.done += sum(targets)


def zero_smallest_(
    weights: Sequence[Tensor],
    k: int,
    *,
    score: Callable[..., Tensor] = magnitude,
    inputs: Sequence[Sequence[Tensor]] | None = None,
    kernel: str | None = "magnitude",
    count: Count | None = None,
    ranks: Ranks = ALONE,
    scratch: Scratch,
) -> Cut | Promise | None:
    """See mgpp.functional.select.zero_smallest_. On a GPU the numbers are promised: nobody waits for them.

    `kernel` names the fused form of `score`: "magnitude" of the weight, "curvature" of weight and second moment (with
    its bias correction third), the "product" of two inputs, or the one "input" itself. None: it has no fused form.
    """
    if ranks.size > 1:
        if kernel is None:
            return plain_select.zero_smallest_(weights, k, score=score, inputs=inputs, ranks=ranks)
        by_size = kernel == "magnitude"
        return shards.zero_smallest_(
            weights, k, score=score, inputs=inputs, by_size=by_size, ranks=ranks, scratch=scratch
        )
    first, second, factors = _roles(weights, inputs, kernel)
    layout = None
    if first is not None and second is not None:
        layout = _laid_out("select", (weights, first, second), scratch)
    if layout is not None:
        from mgpp.kernels import select

        selection = select.selection_for(layout, str(kernel), scratch)
        # A weight that had no gradient has not been counted.
        counted = count is not None and count.selection is selection and count.done == len(weights)
        return select.zero_smallest_(selection, k, factors=factors, counted=counted)
    if kernel is not None and cpu.supports(weights):
        return cpu.zero_smallest_(weights, k, score=score, inputs=inputs, kernel=kernel, scratch=scratch)
    return plain_select.zero_smallest_(weights, k, score=score, inputs=inputs)


def _roles(
    weights: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]] | None, kernel: str | None
) -> tuple[Sequence[Tensor] | None, Sequence[Tensor] | None, float | Tensor | None]:
    """What the kernels call first, second and factors."""
    if kernel == "magnitude":
        return weights, weights, None
    if kernel is None or inputs is None or not weights or not weights[0].is_cuda:
        return None, None, None
    columns = [list(column) for column in zip(*inputs, strict=True)]
    if kernel == "input":
        return columns[0], columns[0], None
    if kernel == "product":
        return columns[0], columns[1], None
    if not _of_one_shape(weights, columns[0]):
        return None, None, None
    return weights, columns[0], _one_or_each(columns[1], weights[0].device)


def _of_one_shape(weights: Sequence[Tensor], moments: Sequence[Tensor]) -> bool:
    """A weight that has never had a gradient has one number for all its moments."""
    return [*map(Tensor.numel, moments)] == [*map(Tensor.numel, weights)]


def _one_or_each(numbers: Sequence[float | Tensor], device: torch.device) -> float | Tensor:
    """A number on the host, if it is the same for all; else all of them, on the device, which nobody waits for."""
    if len({*map(id, numbers)}) == 1 and not (isinstance(numbers[0], Tensor) and numbers[0].is_cuda):
        return float(numbers[0])
    if any(isinstance(number, Tensor) and number.is_cuda for number in numbers):
        return torch.stack([torch.as_tensor(number, dtype=torch.float32, device=device) for number in numbers])
    values = [float(number) for number in numbers]
    if all(value == values[0] for value in values):
        return values[0]
    if device.type != "cuda":
        return torch.tensor(values, dtype=torch.float32)
    if is_capturing():  # a replay would copy from the host's memory, in which other numbers may lie by then
        return torch.stack([torch.full((), value, dtype=torch.float32, device=device) for value in values])
    return torch.tensor(values, dtype=torch.float32).pin_memory().to(device, non_blocking=True)
