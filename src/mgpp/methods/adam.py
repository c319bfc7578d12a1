"""Reading the second moment that Adam and its relatives keep of every weight's gradient."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from mgpp.functional.adamw import wide
from mgpp.methods.recipe import Recipe, Step


def require_second_moments(step: Step, weights: Iterable[Tensor], *, setting: str, otherwise: str) -> None:
    """Refuse, by name, an optimizer that keeps no second moment; `otherwise` is the setting that needs none."""
    if step.optimizer is None:
        raise RuntimeError(
            f"{setting} reads the optimizer's second moment: call pruner.attach(optimizer), with hooks=False where you "
            "call before_step and after_step yourself"
        )
    if step.plan is not None:  # mgpp.AdamW, which keeps it; asking each weight at every step takes the host a while
        return
    for weight in weights:
        if not _is_readable(weight, step.state_of(weight), step.group_of(weight)):
            raise _keeps_none(step.optimizer, setting=setting, otherwise=otherwise)


def require_betas(recipe: Recipe, optimizer: Optimizer) -> None:
    """Refuse, before a step is taken, an optimizer whose groups show that it keeps no second moment, if one is read."""
    for piece in (recipe.penalty, recipe.score):
        words = None if piece is None else piece.reads_second_moments
        if words is not None and any("betas" not in group for group in optimizer.param_groups):
            raise _keeps_none(optimizer, **words)


def _keeps_none(optimizer: Optimizer, *, setting: str, otherwise: str) -> ValueError:
    return ValueError(
        f"{setting} reads Adam's second moment, one number a weight, and {type(optimizer).__name__} keeps none: train "
        f"with torch.optim.AdamW (optim='adamw_torch' in a Trainer), or set {otherwise}"
    )


def second_moments(
    step: Step, weights: Sequence[Tensor], *, setting: str, otherwise: str
) -> list[tuple[Tensor, Tensor]]:
    """(v, 1 - β2^t) of each weight, v̂ being their quotient. v is the optimizer's own tensor, not a copy.

    With amsgrad too: v is the estimate, its running maximum is a bound on the step. A weight that has never had a
    gradient has v = 0, as one number.
    """
    require_second_moments(step, weights, setting=setting, otherwise=otherwise)
    told = None if step.plan is None else step.plan.moments_of(weights)
    if told is not None:
        return told
    states = [step.state_of(weight) for weight in weights]
    counts = [_steps(state, step.group_of(weight)) for weight, state in zip(weights, states, strict=True)]
    beta2s = [float(step.group_of(weight)["betas"][1]) for weight in weights]
    corrections = _corrections(counts, beta2s, [wide(weight.dtype) for weight in weights])
    return [
        (state["exp_avg_sq"], correction) if state else (weight.new_zeros(()), weight.new_ones(()))
        for weight, state, correction in zip(weights, states, corrections, strict=True)
    ]


def _is_readable(weight: Tensor, state: Mapping[str, Any], group: Mapping[str, Any]) -> bool:
    if "betas" not in group:
        return False
    moment = state.get("exp_avg_sq")
    # The type: an 8-bit optimizer may keep it under the same name in a tensor class of its own.
    return not state or (
        type(moment) is type(weight.detach()) and moment.shape == weight.shape and _steps(state, group) is not None
    )


def _steps(state: Mapping[str, Any], group: Mapping[str, Any]) -> Any:
    return state.get("step", group.get("step"))  # in the group: apex


def _corrections(counts: Sequence[Any], beta2s: Sequence[float], dtypes: Sequence[torch.dtype]) -> list[Tensor]:
    """1 - β2^t for each, without waiting for a device on which t may live: few kernels however many weights, and one
    number for weights that share a counter."""
    found: list[Tensor] = [torch.ones(())] * len(counts)
    alike: dict[tuple[torch.device, float, torch.dtype], dict[int, list[int]]] = {}
    for i, (count, beta2, dtype) in enumerate(zip(counts, beta2s, dtypes, strict=True)):
        device = count.device if isinstance(count, Tensor) else torch.device("cpu")
        alike.setdefault((device, beta2, dtype), {}).setdefault(id(count), []).append(i)
    for (device, beta2, dtype), sharing in alike.items():
        precise = torch.float64 if device.type == "cpu" else torch.float32  # not every device has float64
        each = [counts[indices[0]] for indices in sharing.values()]
        each = [torch.as_tensor(0 if count is None else count, dtype=precise, device=device) for count in each]
        # expm1: 1 - β2^t itself loses four of float32's seven digits at t = 1.
        log_beta2 = math.log(beta2) if beta2 > 0 else -math.inf
        values = (torch.stack(each) * log_beta2).expm1_().neg_().to(dtype).unbind()
        for indices, value in zip(sharing.values(), values, strict=True):
            for i in indices:
                found[i] = value
    return found
