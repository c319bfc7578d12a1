"""Attention for inference: softmax(q·kᵀ)·v by the compiled kernel, as one of Transformers' attention functions.

Once the matrices are sparse, torch's attention on a CPU is what takes longest in a small encoder.
"""

import functools
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, bidirectional_mask_function, sdpa_mask

from mgpp.compiler import NoKernel
from mgpp.runtime.build import Kernel, kernel

NAME, TORCHS = "mgpp", "sdpa"
FEWEST = 8  # queries, of which the kernel takes a vector at once
DIMENSIONS = 4  # of a head, which it takes at once
# What some models ask of torch's attention beside, and the kernel has not.
BESIDE = ("position_bias", "softcap", "cache", "output_attentions")
ROUNDS, HEADS, DIM = 5, 12, 64
LONGEST = 512  # that is measured: `tokens` are a batch's, and a row of so many would take seconds


@torch.compiler.disable
def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """As Transformers calls it: (batch × heads × tokens × dim) to (batch × tokens × heads × dim). What the kernel has
    no room for is done by torch's."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    asks_more = dropout or any(more.get(name) is not None and more[name] is not False for name in BESIDE)
    is_plain = not asks_more and (attention_mask is not None or not causal)
    made = _loaded() if is_plain and _fit(query, key, value) and _is_by_key(attention_mask, query, key) else None
    if made is None:
        settings = {"dropout": dropout, "scaling": scaling, "is_causal": is_causal, **more}
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
    return made.attend(query, key, value, attention_mask, query.shape[-1] ** -0.5 if scaling is None else scaling), None


def _fit(query: Tensor, key: Tensor, value: Tensor) -> bool:
    (batch, heads, queries, dim), (_, groups, keys, _) = query.shape, key.shape
    three = (query, key, value)
    return (
        queries >= FEWEST
        and keys > 0
        and dim % DIMENSIONS == 0
        and heads % groups == 0
        and key.shape == value.shape == (batch, groups, keys, dim)
        and all(each.dtype == torch.float32 and each.device.type == "cpu" and each.stride(3) == 1 for each in three)
        and not (torch.is_grad_enabled() and any(each.requires_grad for each in three))
        and not torch.jit.is_tracing()
    )


def _is_by_key(mask: Tensor | None, query: Tensor, key: Tensor) -> bool:
    """Are the same keys masked for all of a row's queries, as padding is?"""
    if mask is None:
        return True
    return (
        mask.dtype in (torch.bool, torch.float32)
        and mask.dim() == 4
        and mask.shape[0] in (1, len(query))
        and mask.shape[3] == key.shape[2]
        and all(mask.shape[axis] == 1 or mask.stride(axis) == 0 for axis in (1, 2))
    )


@functools.cache
def _loaded() -> Kernel | None:
    """A model that was accelerated elsewhere may come to a machine without a compiler."""
    try:
        return kernel()
    except NoKernel:
        return None


def mask_of(**asked: Any) -> Tensor | None:
    """The mask that torch's attention gets; where it is the same for all queries it is made, and kept, for one."""
    if asked.get("mask_function") is not bidirectional_mask_function or "q_length" not in asked:
        return sdpa_mask(**asked)
    mask = sdpa_mask(**{**asked, "q_length": 1})
    return None if mask is None else mask.expand(-1, -1, asked["q_length"], -1)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, mask_of)


def install(model: nn.Module) -> None:
    """In the place of torch's attention, where all of a model's parts have that and ask for it by its name."""
    for part in _outermost(model):
        inner = [module for module in part.modules() if isinstance(module, PreTrainedModel)]
        if all(each.config._attn_implementation == TORCHS and each._can_set_attn_implementation() for each in inner):
            part.set_attn_implementation(NAME)


def remove(model: nn.Module) -> None:
    for part in _outermost(model):
        if part.config._attn_implementation == NAME:
            part.set_attn_implementation(TORCHS)


def is_installed(model: nn.Module) -> bool:
    return any(part.config._attn_implementation == NAME for part in _outermost(model))


def _outermost(model: nn.Module) -> list[PreTrainedModel]:
    if isinstance(model, PreTrainedModel):
        return [model]
    return [part for child in model.children() for part in _outermost(child)]


def gain(tokens: int) -> float:
    """How many times as fast as torch's the kernel is in a row of that many tokens, here, with the threads of now."""
    return _measured(min(max(tokens, FEWEST), LONGEST), torch.get_num_threads())


@functools.cache
@torch.inference_mode()
def _measured(tokens: int, threads: int) -> float:
    made = kernel()
    q, k, v = torch.ones(3, 1, HEADS, tokens, DIM)
    ways = (lambda: scaled_dot_product_attention(q, k, v), lambda: made.attend(q, k, v, None, DIM**-0.5))
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS + 1):  # in turns; the first is to warm up
        for way, seconds in zip(ways, times, strict=True):
            start = time.perf_counter()
            way()
            seconds.append(time.perf_counter() - start)
    return min(times[0][1:]) / min(times[1][1:])
