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
from deberta import DEBERTA
from families import BERT, MPNET
from torch import Tensor, nn
from torch.nn import functional as F

ALIGNED = 32  # numbers: every slice starts where a kernel may read 16 bytes at once
FAMILIES = {"bert": BERT, "mpnet": MPNET, "deberta-v2": DEBERTA}


class Stack:
    """`logits(ids, types)` of every model on rows of its own, [models, rows, tokens]; `backward` fills the models'
    gradients."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self.config = models[0].config
        self.family = FAMILIES[self.config.model_type]
        self.family.check(self.config)
        self.size = len(models)
        self.dtype = torch.bfloat16 if next(models[0].parameters()).is_cuda else torch.float32
        self.training = True
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
        family, p = self.family, self.config.hidden_dropout_prob
        self.training = training
        x = family.embedded(self, ids, mask, types).reshape(size, rows * width, -1)
        x = self.drop(self.norm(x, f"{family.body}.embeddings.LayerNorm"), p)
        attend = family.attention(self, mask)
        for i in range(self.config.num_hidden_layers):
            at = f"{family.body}.encoder.layer.{i}"
            mixed = self.linear(attend(self.narrow(x), at), f"{at}.{family.o}")
            x = self.norm(x + self.drop(mixed, p), f"{at}.{family.norm}")
            inner = F.gelu(self.linear(self.narrow(x), f"{at}.intermediate.dense"))
            inner = self.linear(inner, f"{at}.output.dense")
            x = self.norm(x + self.drop(inner, p), f"{at}.output.LayerNorm")
        first = x.view(size, rows, width, -1)[:, :, 0]
        return family.head(self, first).float()

    def attended(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, *, scale: float | None = None) -> Tensor:
        """Heads [models · rows, heads, width, numbers], mixed and put together again."""
        p = self.config.attention_probs_dropout_prob if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=p, scale=scale)
        rows, _, width, _ = mixed.shape
        return mixed.transpose(1, 2).reshape(self.size, rows // self.size * width, -1)

    def unseen(self, mask: Tensor) -> Tensor:
        """What attention adds so that padding is not seen, [models, rows, 1, 1, width]."""
        zeros = torch.zeros(mask.shape, dtype=self.dtype, device=mask.device)
        return zeros.masked_fill(~mask.bool(), torch.finfo(self.dtype).min)[:, :, None, None]

    def looked_up(self, name: str, ids: Tensor) -> Tensor:
        table = self.params[name]
        starts = torch.arange(self.size, device=ids.device)[:, None, None] * (table.stride(0) // table.shape[2])
        return _Rows.apply(table, ids + starts, self.grads[name])

    def linear(self, x: Tensor, name: str) -> Tensor:
        """Once for each layer: its gradients are written, not added."""
        weight, bias = self.params[f"{name}.weight"], self.params[f"{name}.bias"]
        x = self.narrow(x)
        y = _Product.apply(x, weight, bias, self.grads[f"{name}.weight"], self.grads[f"{name}.bias"])
        if f"{name}.left" not in self.params:
            return y
        left, right = (self.params[f"{name}.{part}"].to(x.dtype).transpose(1, 2) for part in ("left", "right"))
        return torch.baddbmm(y, torch.bmm(x, right), left)

    def heads(self, x: Tensor, rows: int) -> Tensor:
        return x.view(self.size * rows, -1, self.config.num_attention_heads, self.head_size).transpose(1, 2)

    @property
    def head_size(self) -> int:
        return self.config.hidden_size // self.config.num_attention_heads

    def norm(self, x: Tensor, name: str) -> Tensor:
        normal = F.layer_norm(x.float(), x.shape[-1:], eps=self.config.layer_norm_eps)
        return torch.addcmul(self.params[f"{name}.bias"][:, None], normal, self.params[f"{name}.weight"][:, None])

    def narrow(self, x: Tensor) -> Tensor:
        return x.to(self.dtype)

    def drop(self, x: Tensor, p: float) -> Tensor:
        return F.dropout(x, p) if self.training and p else x


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
