"""Several encoders of one shape, trained side by side as one: every kernel works on all of them, so that a card that
one small model leaves idle is used. Each stays a Transformers model of its own, whose parameters are slices of the
stack.

The arithmetic is that of bfloat16 autocast: matrix products and attention in bfloat16, the rest in float32. A small
model's step is bound by how often its weights and gradients are read and written, so the large ones' gradients go from
the product that makes them straight to where the optimizer reads them.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ALIGNED = 32  # numbers: every slice starts where a kernel may read 16 bytes at once
# What the two families call the same things.
NAMES = {
    "bert": {
        "body": "bert",
        "layer": "bert.encoder.layer",
        "q": "attention.self.query",
        "k": "attention.self.key",
        "v": "attention.self.value",
        "o": "attention.output.dense",
        "norm": "attention.output.LayerNorm",
    },
    "mpnet": {
        "body": "mpnet",
        "layer": "mpnet.encoder.layer",
        "q": "attention.attn.q",
        "k": "attention.attn.k",
        "v": "attention.attn.v",
        "o": "attention.attn.o",
        "norm": "attention.LayerNorm",
    },
}


class Stack:
    """`logits(ids, types)` of every model on rows of its own, [models, rows, tokens]; `backward` fills the models'
    gradients."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self.config = models[0].config
        self.names = NAMES[self.config.model_type]
        self.size = len(models)
        self.half = next(models[0].parameters()).is_cuda
        self.params: dict[str, nn.Parameter] = {}
        self.grads: dict[str, Tensor] = {}
        for name, first in models[0].named_parameters():
            weights = [model.get_parameter(name) for model in models]
            stacked, grads = _room(self.size, first), _room(self.size, first)
            for i, weight in enumerate(weights):
                stacked[i].copy_(weight.data)
                weight.data, weight.grad = stacked[i], grads[i]
            self.params[name], self.grads[name] = nn.Parameter(stacked), grads

    def backward(self, loss: Tensor) -> None:
        """Those of matrices and tables are written on the way (_Product, _Rows), the others here."""
        used = list(self.params)
        grads = torch.autograd.grad(loss, [self.params[name] for name in used], allow_unused=True)
        taken = [(self.grads[name], grad) for name, grad in zip(used, grads, strict=True) if grad is not None]
        torch._foreach_copy_([kept for kept, _ in taken], [grad for _, grad in taken])

    def logits(self, ids: Tensor, mask: Tensor, types: Tensor | None, *, training: bool = True) -> Tensor:
        size, rows, width = ids.shape
        config, drop = self.config, self._dropout if training else (lambda x, p: x)
        x = self._embedded(ids, mask, types, drop).reshape(size, rows * width, -1)
        seen = mask.reshape(size * rows, 1, 1, width).bool()
        bias = self._bias(seen, rows, width)
        p_attention = config.attention_probs_dropout_prob if training else 0.0
        for i in range(config.num_hidden_layers):
            at = f"{self.names['layer']}.{i}"
            half = self._half(x)
            q, k, v = (self._heads(self._linear(half, f"{at}.{self.names[kind]}"), rows, width) for kind in "qkv")
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=p_attention)
            mixed = mixed.transpose(1, 2).reshape(size, rows * width, -1)
            mixed = drop(self._linear(mixed, f"{at}.{self.names['o']}"), config.hidden_dropout_prob)
            x = self._norm(x + mixed, f"{at}.{self.names['norm']}")
            inner = F.gelu(self._linear(self._half(x), f"{at}.intermediate.dense"))
            inner = drop(self._linear(inner, f"{at}.output.dense"), config.hidden_dropout_prob)
            x = self._norm(x + inner, f"{at}.output.LayerNorm")
        first = x.view(size, rows, width, -1)[:, :, 0]
        return self._head(first, drop).float()

    def _head(self, first: Tensor, drop) -> Tensor:
        p = self.config.hidden_dropout_prob
        if self.config.model_type == "bert":
            pooled = torch.tanh(self._linear(self._half(first), "bert.pooler.dense"))
            return self._linear(drop(pooled, p), "classifier")
        first = self._half(drop(first, p))
        return self._linear(drop(torch.tanh(self._linear(first, "classifier.dense")), p), "classifier.out_proj")

    def _embedded(self, ids: Tensor, mask: Tensor, types: Tensor | None, drop) -> Tensor:
        at = f"{self.names['body']}.embeddings"
        places = torch.arange(ids.shape[-1], device=ids.device).expand_as(ids)
        if self.config.model_type == "mpnet":  # counted from the padding's number on, and only where there is a token
            places = mask.cumsum(-1) * mask + 1
        x = self._looked_up(f"{at}.word_embeddings.weight", ids)
        x = x + self._looked_up(f"{at}.position_embeddings.weight", places)
        if self.config.model_type == "bert":
            types = torch.zeros_like(ids) if types is None else types
            x = x + self._looked_up(f"{at}.token_type_embeddings.weight", types)
        size, rows, width = ids.shape
        x = self._norm(x.reshape(size, rows * width, -1), f"{at}.LayerNorm")
        return drop(x, self.config.hidden_dropout_prob)

    def _bias(self, seen: Tensor, rows: int, width: int) -> Tensor:
        """What attention adds: nothing, or that padding is not seen; and MPNet's bias by distance."""
        dtype = torch.bfloat16 if self.half else torch.float32
        hidden = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)
        if self.config.model_type != "mpnet":
            return hidden.expand(-1, 1, width, -1)
        table = self.params["mpnet.encoder.relative_attention_bias.weight"]
        buckets = _buckets(width, table.shape[1], seen.device)
        by_distance = table[:, buckets.flatten()].view(self.size, width, width, -1).permute(0, 3, 1, 2)
        together = by_distance[:, None].to(dtype) + hidden.view(self.size, rows, 1, 1, width)
        return together.flatten(0, 1)

    def _looked_up(self, name: str, ids: Tensor) -> Tensor:
        table = self.params[name]
        starts = torch.arange(self.size, device=ids.device)[:, None, None] * (table.stride(0) // table.shape[2])
        return _Rows.apply(table, ids + starts, self.grads[name])

    def _linear(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self.params[f"{name}.weight"], self.params[f"{name}.bias"]
        x = self._half(x)
        y = _Product.apply(x, weight, bias, self.grads[f"{name}.weight"], self.grads[f"{name}.bias"])
        if f"{name}.left" not in self.params:
            return y
        left, right = (self.params[f"{name}.{part}"].to(x.dtype).transpose(1, 2) for part in ("left", "right"))
        return torch.baddbmm(y, torch.bmm(x, right), left)

    def _heads(self, x: Tensor, rows: int, width: int) -> Tensor:
        return x.view(self.size * rows, width, self.config.num_attention_heads, -1).transpose(1, 2)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        normal = F.layer_norm(x.float(), x.shape[-1:], eps=self.config.layer_norm_eps)
        return torch.addcmul(self.params[f"{name}.bias"][:, None], normal, self.params[f"{name}.weight"][:, None])

    def _half(self, x: Tensor) -> Tensor:
        return x.bfloat16() if self.half else x

    @staticmethod
    def _dropout(x: Tensor, p: float) -> Tensor:
        return F.dropout(x, p)


class _Product(torch.autograd.Function):
    """x·Wᵀ + b of every model, in x's precision; the gradients of W and b are written to their place, not returned."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, weight_grad: Tensor, bias_grad: Tensor) -> Tensor:
        narrow = weight.to(x.dtype)
        ctx.save_for_backward(x, narrow)
        ctx.grads = weight_grad, bias_grad
        return torch.baddbmm(bias.to(x.dtype)[:, None], x, narrow.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad,), (x, narrow), (weight_grad, bias_grad) = grads, ctx.saved_tensors, ctx.grads
        weight_grad.copy_(torch.bmm(grad.transpose(1, 2), x))
        bias_grad.copy_(grad.sum(1, dtype=bias_grad.dtype))
        return torch.bmm(grad, narrow), None, None, None, None


class _Rows(torch.autograd.Function):
    """Rows of the models' tables, numbered through; the tables' gradient is written to its place, not returned."""

    @staticmethod
    def forward(ctx: Any, tables: Tensor, rows: Tensor, grad_of_tables: Tensor) -> Tensor:
        ctx.rows, ctx.grad = rows, grad_of_tables
        return F.embedding(rows, _end_to_end(tables))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        ctx.grad.zero_()
        _end_to_end(ctx.grad).index_add_(0, ctx.rows.flatten(), grads[0].flatten(0, -2))
        return None, None, None


def _end_to_end(tables: Tensor) -> Tensor:
    """Their rows, and between two tables those that fill a room up."""
    size, _, width = tables.shape
    return tables.as_strided((size * tables.stride(0) // width, width), (width, 1))


def _room(size: int, like: Tensor) -> Tensor:
    """For `size` tensors like this one, each starting on a boundary, of whole rows."""
    whole = math.lcm(ALIGNED, like.shape[-1])
    step = -(-like.numel() // whole) * whole
    flat = torch.zeros(size, step, dtype=like.dtype, device=like.device)
    return flat[:, : like.numel()].unflatten(1, like.shape)


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
