"""What each kind of model has of its own in a stack (stack.py): how tokens are embedded, how attention is computed and
what the head is. The rest of a layer all of them have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from stack import Stack

Attend = Callable[[Tensor, str], Tensor]  # a layer's input and the layer's name: what its heads say


@dataclass(frozen=True, kw_only=True)
class Family:
    body: str
    q: str
    k: str
    v: str
    o: str
    norm: str
    embedded: Callable[[Stack, Tensor, Tensor, Tensor | None], Tensor]  # before the norm
    attention: Callable[[Stack, Tensor], Attend]  # from the mask, once for all layers
    head: Callable[[Stack, Tensor], Tensor]  # from what the last layer says of the first token
    options: Mapping[str, Any] = field(default_factory=dict)  # those that are built, where a config has a choice

    def check(self, config: Any) -> None:
        for name, built in {"hidden_act": "gelu", **self.options}.items():
            given = getattr(config, name, None)
            given = sorted(given) if isinstance(given, list) else given
            if given != built:
                told = f"{name}={given!r} of {config.model_type}"
                raise ValueError(f"{told} cannot be stacked, only {built!r}: train it alone, or build it")


def embedded(stack: Stack, places: Tensor, ids: Tensor) -> Tensor:
    at = f"{stack.family.body}.embeddings"
    words = stack.looked_up(f"{at}.word_embeddings.weight", ids)
    return words + stack.looked_up(f"{at}.position_embeddings.weight", places)


def attending(stack: Stack, bias: Tensor, rows: int) -> Attend:
    names = (stack.family.q, stack.family.k, stack.family.v)

    def attend(x: Tensor, at: str) -> Tensor:
        q, k, v = (stack.heads(stack.linear(x, f"{at}.{name}"), rows) for name in names)
        return stack.attended(q, k, v, bias)

    return attend


def _embedded_by_bert(stack: Stack, ids: Tensor, mask: Tensor, types: Tensor | None) -> Tensor:
    places = torch.arange(ids.shape[-1], device=ids.device).expand_as(ids)
    types = torch.zeros_like(ids) if types is None else types
    return embedded(stack, places, ids) + stack.looked_up("bert.embeddings.token_type_embeddings.weight", types)


def _attention_of_bert(stack: Stack, mask: Tensor) -> Attend:
    _, rows, width = mask.shape
    return attending(stack, stack.unseen(mask).flatten(0, 1).expand(-1, 1, width, -1), rows)


def _head_of_bert(stack: Stack, first: Tensor) -> Tensor:
    pooled = torch.tanh(stack.linear(first, "bert.pooler.dense"))
    return stack.linear(stack.drop(pooled, stack.config.hidden_dropout_prob), "classifier")


def _embedded_by_mpnet(stack: Stack, ids: Tensor, mask: Tensor, types: Tensor | None) -> Tensor:
    # Counted from the padding's number on, and only where there is a token.
    return embedded(stack, mask.cumsum(-1) * mask + 1, ids)


def _attention_of_mpnet(stack: Stack, mask: Tensor) -> Attend:
    """With a bias by distance, of which all layers have one."""
    _, rows, width = mask.shape
    table = stack.params["mpnet.encoder.relative_attention_bias.weight"]
    buckets = _buckets(width, table.shape[1], mask.device)
    by_distance = table[:, buckets.flatten()].view(stack.size, width, width, -1).permute(0, 3, 1, 2)
    together = stack.narrow(by_distance[:, None]) + stack.unseen(mask)
    return attending(stack, together.flatten(0, 1), rows)


def _head_of_mpnet(stack: Stack, first: Tensor) -> Tensor:
    p = stack.config.hidden_dropout_prob
    inner = torch.tanh(stack.linear(stack.drop(first, p), "classifier.dense"))
    return stack.linear(stack.drop(inner, p), "classifier.out_proj")


def _buckets(width: int, count: int, device: torch.device) -> Tensor:
    """MPNet's: half of the buckets a direction, exact while near, then by the distance's logarithm up to 128."""
    places = torch.arange(width, device=device)
    ahead = places[:, None] - places[None, :]  # how far the key lies behind the query
    half = count // 2
    near = half // 2
    far = ahead.abs()
    scale = (half - near) / torch.log(torch.tensor(128 / near))
    logged = near + ((far.clamp(min=1).float() / near).log() * scale.item()).long()
    return (ahead < 0).long() * half + torch.where(far < near, far, logged.clamp(max=half - 1))


BERT = Family(
    body="bert",
    q="attention.self.query",
    k="attention.self.key",
    v="attention.self.value",
    o="attention.output.dense",
    norm="attention.output.LayerNorm",
    embedded=_embedded_by_bert,
    attention=_attention_of_bert,
    head=_head_of_bert,
)
MPNET = Family(
    body="mpnet",
    q="attention.attn.q",
    k="attention.attn.k",
    v="attention.attn.v",
    o="attention.attn.o",
    norm="attention.LayerNorm",
    embedded=_embedded_by_mpnet,
    attention=_attention_of_mpnet,
    head=_head_of_mpnet,
)
