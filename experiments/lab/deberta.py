"""DeBERTa (v2 and v3) in a stack: attention by content and, both ways, by distance.

A score is (q·k + q·k_d + k·q_d) / √(3n) for a query and a key that lie d apart, where q_d and k_d are the layer's own
projections of the distance's embedding. Only the distances that a batch of this width has are computed, 2·width of
them; and what belongs to a pair of tokens is read from the products through strides, not gathered.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import torch
from families import Attend, Family
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from stack import Stack

_TABLE = "deberta.encoder.rel_embeddings.weight"


def _embedded(stack: Stack, ids: Tensor, mask: Tensor, types: Tensor | None) -> Tensor:
    # Transformers zeroes padding here; nobody sees it, whatever it is.
    return stack.looked_up("deberta.embeddings.word_embeddings.weight", ids)


def _attention(stack: Stack, mask: Tensor) -> Attend:
    _, rows, width = mask.shape
    config, family, unseen = stack.config, stack.family, stack.unseen(mask)
    furthest = config.max_relative_positions if config.max_relative_positions > 0 else config.max_position_embeddings
    used, shared = _distances(width, config.position_buckets, furthest, mask.device)
    table = stack.norm(stack.params[_TABLE][:, used], "deberta.encoder.LayerNorm")
    scale = 1 / math.sqrt(3 * stack.head_size)

    def attend(x: Tensor, at: str) -> Tensor:
        distances = stack.drop(table, config.hidden_dropout_prob)
        distances = distances if shared is None else distances.index_select(1, shared)
        # One product for tokens and distances: they go through the same weights.
        together = torch.cat((x, stack.narrow(distances)), 1)
        parts = (x.shape[1], 2 * width)
        q, q_far = stack.linear(together, f"{at}.{family.q}").split(parts, 1)
        k, k_far = stack.linear(together, f"{at}.{family.k}").split(parts, 1)
        v = stack.heads(stack.linear(x, f"{at}.{family.v}"), rows)
        tokens = _by_head(stack, q, k)
        products = tokens @ _by_head(stack, k_far.flip(1), q_far).transpose(-1, -2)
        bias = _Bias.apply(products, unseen, scale)
        q, k = (part.unflatten(2, (rows, width)).flatten(1, 2).transpose(0, 1) for part in tokens.unbind())
        return stack.attended(q, k, v, bias, scale=scale)

    return attend


def _by_head(stack: Stack, *parts: Tensor) -> Tensor:
    """[parts, heads, models, tokens, numbers]: a model's tokens lie together for every head, and so do all models'."""
    return torch.stack([part.unflatten(-1, (-1, stack.head_size)).permute(2, 0, 1, 3) for part in parts])


def _head(stack: Stack, first: Tensor) -> Tensor:
    config = stack.config
    pooled = F.gelu(stack.linear(stack.drop(first, config.pooler_dropout), "pooler.dense"))
    own = getattr(config, "cls_dropout", None)
    return stack.linear(stack.drop(pooled, config.hidden_dropout_prob if own is None else own), "classifier")


class _Bias(torch.autograd.Function):
    """What distance adds to the scores, [models · rows, heads, width, width], with `unseen` on top.

    `products` [2, heads, models, tokens, distances] are the queries' with the distances from far ahead to far behind,
    and the keys' the other way round: so a row's pairs start one number earlier than those of the row before.
    """

    @staticmethod
    def forward(ctx: Any, products: Tensor, unseen: Tensor, scale: float) -> Tensor:
        ctx.shape, ctx.scale = products.shape, scale
        models, rows, _, _, width = unseen.shape
        bias = torch.empty(models, rows, products.shape[1], width, width, dtype=products.dtype, device=products.device)
        torch.add(*_pairs(products), out=bias)
        return torch.add(unseen, bias, alpha=scale, out=bias).flatten(0, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        products = torch.zeros(ctx.shape, dtype=grads[0].dtype, device=grads[0].device)
        scaled = grads[0].mul(ctx.scale).unflatten(0, (ctx.shape[2], -1))
        for pairs in _pairs(products):
            pairs.copy_(scaled)
        return products, None, None


def _pairs(products: Tensor) -> tuple[Tensor, Tensor]:
    """Views [models, rows, heads, queries, keys] of the queries' products and of the keys'."""
    _, heads, models, tokens, distances = products.shape
    width, step = distances // 2, distances - 1
    shape = (models, tokens // width, heads, width, width)
    outer = (tokens * distances, width * distances, models * tokens * distances)
    queries = products.as_strided(shape, (*outer, step, 1), width - 1)
    keys = products.as_strided(shape, (*outer, 1, step), products.stride(0) + width)
    return queries, keys


@functools.cache
def _distances(width: int, buckets: int, furthest: int, device: torch.device) -> tuple[slice, Tensor | None]:
    """Which rows of the table are used by distances from -width to width - 1, and which of these each has where far
    ones share a row. Made once: a graph that is being recorded must not wait for the host."""
    rows = (_bucketed(torch.arange(-width, width), buckets, furthest) + buckets).clamp(0, 2 * buckets - 1)
    first, last = int(rows[0]), int(rows[-1])
    shared = None if last - first == 2 * width - 1 else (rows - first).to(device)
    return slice(first, last + 1), shared


def _bucketed(distance: Tensor, buckets: int, furthest: int) -> Tensor:
    """Exact up to half of the buckets, then by the distance's logarithm."""
    near = buckets // 2
    far = distance.abs().clamp(min=near)
    logged = (far / near).log() / torch.tensor((furthest - 1) / near).log() * (near - 1)
    return torch.where(far > near, (logged.ceil().long() + near) * distance.sign(), distance)


DEBERTA = Family(
    body="deberta",
    q="attention.self.query_proj",
    k="attention.self.key_proj",
    v="attention.self.value_proj",
    o="attention.output.dense",
    norm="attention.output.LayerNorm",
    embedded=_embedded,
    attention=_attention,
    head=_head,
    options={
        "relative_attention": True,
        "share_att_key": True,
        "pos_att_type": ["c2p", "p2c"],
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "type_vocab_size": 0,
        "pooler_hidden_act": "gelu",
        "conv_kernel_size": None,
    },
)
