"""Which layers of a model become sparse, and putting them in their places."""

import warnings
from collections import Counter
from dataclasses import dataclass

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from mgpp.layers import WEIGHT_READERS
from mgpp.runtime import attention
from mgpp.runtime.choice import gain
from mgpp.runtime.layer import SparseLinear
from mgpp.runtime.paths import Path, active
from mgpp.targets import stacks_of

# With more than this left no path has won; such a layer is not even packed.
DENSEST = 0.75


def accelerate(model: nn.Module, *, tokens: int = 128, least_gain: float = 1.1, path: str = "auto") -> nn.Module:
    """Put a SparseLinear in the place of every pruned Linear (and Conv1D) that is faster so; returns the same model.

    The outputs stay the same to float rounding. The model is for inference from then on: frozen, in eval mode, on the
    CPU and in float32. Each shape and density is measured once, dense against sparse, with `tokens` tokens (batch ×
    length), and a layer is replaced where sparse is at least `least_gain` times as fast; least_gain=0 replaces all that
    are pruned. A Transformers model whose attention is torch's ("sdpa") gets that of the kernel, too, if it is faster
    here. Experts that are kept as stacks of matrices are no layers, and stay dense. `path` is auto, compiled or
    csr: `mgpp.runtime.active()` says what auto means here.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"{model!r} is no model: load it first, AutoModel….from_pretrained({model!r})")
    if tokens < 1:
        raise ValueError(f"tokens={tokens}: at least 1")
    way = active(path)
    pruned = {name: layer for name, layer in _replaceable(model).items() if _density(layer) <= DENSEST}
    if not pruned and is_accelerated(model):
        return model
    if not pruned:
        least = f"{1 - DENSEST:.0%}"
        raise ValueError(f"no Linear layer of {type(model).__name__} has {least} zeros or more: prune the model first")
    _require_float32_on_cpu(pruned)
    model.requires_grad_(False).eval()
    made: dict[int, SparseLinear | None] = {}
    for name, layer in pruned.items():
        if id(layer) not in made:
            made[id(layer)] = _sparse(layer, way, tokens=tokens, least_gain=least_gain)
        sparse = made[id(layer)]
        if sparse is not None:
            model.set_submodule(name, sparse)
    if is_accelerated(model) and way.name == "compiled" and attention.gain(tokens) >= least_gain:
        attention.install(model)
    if not is_accelerated(model):
        warnings.warn(f"no layer of {type(model).__name__} is faster sparse, so all stay dense: {way}", stacklevel=2)
    return model


def densify(model: nn.Module) -> nn.Module:
    """Put plain layers back in the place of all SparseLinear, with the same weights, and torch's attention; the model
    stays frozen."""
    plain: dict[int, nn.Module] = {}
    for name, layer in list(model.named_modules(remove_duplicate=False)):
        if isinstance(layer, SparseLinear):
            if id(layer) not in plain:
                plain[id(layer)] = layer.plain()
            model.set_submodule(name, plain[id(layer)])
    attention.remove(model)
    return model


@dataclass(frozen=True, kw_only=True)
class Summary:
    path: str
    sparse_layers: int
    dense_layers: int  # Linear and Conv1D layers that stayed as they were, heads among them
    dense_stacks: int  # experts, whose weights are stacks of matrices: no layer that could be replaced
    density: float  # of the sparse layers
    sparse_bytes: int
    replaced_bytes: int  # what the sparse layers' weights took as dense matrices
    fast_attention: bool  # by the kernel in the place of torch's

    def __str__(self) -> str:
        sizes = f"{self.replaced_bytes / 1e6:.1f} MB of weights in {self.sparse_bytes / 1e6:.1f} MB"
        layers = f"{self.sparse_layers} layers sparse ({self.density:.1%} of their weights left, {sizes})"
        stacks = f" and {self.dense_stacks} stacks of experts' weights" if self.dense_stacks else ""
        attended = ", attention by the kernel" if self.fast_attention else ""
        return f"{layers}, {self.dense_layers}{stacks} dense{attended}; path: {self.path}"


def summary(model: nn.Module) -> Summary:
    """What `accelerate` made of the model."""
    layers = [layer for layer in model.modules() if isinstance(layer, SparseLinear)]
    weights = sum(layer.in_features * layer.out_features for layer in layers)
    paths = sorted({str(active(layer.path)) for layer in layers})
    return Summary(
        path="; ".join(paths) or "none",
        sparse_layers=len(layers),
        dense_layers=sum(isinstance(layer, nn.Linear | Conv1D) for layer in model.modules()),
        dense_stacks=len({id(stack) for stack in stacks_of(model)}),
        density=sum(layer.packed.nonzeros for layer in layers) / max(1, weights),
        sparse_bytes=sum(layer.packed.nbytes for layer in layers),
        replaced_bytes=4 * weights,
        fast_attention=attention.is_installed(model),
    )


def _sparse(layer: nn.Linear | Conv1D, way: Path, *, tokens: int, least_gain: float) -> SparseLinear | None:
    if way.bind is None:
        return None
    sparse = SparseLinear.replacing(layer, path=way.name)
    return sparse if least_gain <= 0 or gain(layer, sparse, tokens=tokens) >= least_gain else None


def is_accelerated(model: nn.Module) -> bool:
    return any(isinstance(layer, SparseLinear) for layer in model.modules())


def _replaceable(model: nn.Module) -> dict[str, nn.Linear | Conv1D]:
    """Layers that are plain, that the model calls, and whose weight is theirs alone; a shared layer under each name."""
    modules = dict(model.named_modules(remove_duplicate=False))
    readers = tuple(f"{name}." for name, module in modules.items() if isinstance(module, WEIGHT_READERS))
    owners = Counter(id(weight) for module in model.modules() for weight in module._parameters.values())
    return {
        name: layer
        for name, layer in modules.items()
        if name and type(layer) in (nn.Linear, Conv1D) and not name.startswith(readers) and _is_plain(layer, owners)
    }


def _is_plain(layer: nn.Module, owners: Counter[int]) -> bool:
    weight = layer.weight
    assert isinstance(weight, nn.Parameter)
    # A hook, or a forward of the instance's own (accelerate's device maps), would be lost with the layer.
    hooked = layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer)
    return not hooked and owners[id(weight)] == 1 and weight.numel() > 0 and weight.layout == torch.strided


def _density(layer: nn.Module) -> float:
    weight = layer.weight
    assert isinstance(weight, nn.Parameter)
    return int(torch.count_nonzero(weight)) / weight.numel()


def _require_float32_on_cpu(layers: dict[str, nn.Linear | Conv1D]) -> None:
    for name, layer in layers.items():
        for tensor in (layer.weight, *filter(lambda bias: bias is not None, [layer.bias])):
            if tensor.device.type != "cpu" or tensor.dtype != torch.float32:
                raise ValueError(
                    f"{name} is {tensor.dtype} on {tensor.device}: sparse layers compute in float32 on the CPU, call "
                    "model.float().cpu() first (a bfloat16 weight is exact in float32)"
                )
