"""2:4 layers on a GPU whose tensor cores skip the zeros; their weights take nine sixteenths of the memory."""

import warnings

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mgpp.layers import WEIGHT_READERS

# Of outputs and inputs. cuSPARSELt asks for 16 × 16 in half precision, CUTLASS for 32 × 64: these hold for both.
MULTIPLES = (32, 64)
DTYPES = (torch.bfloat16, torch.float16)


def to_semi_structured(model: nn.Module) -> nn.Module:
    """Compress the weight of every Linear (and Conv1D) that is 2:4; returns the same model, for inference only.

    The model is in bfloat16 or float16, on a GPU of compute capability 8.0 or more. A 2:4 layer that cannot be
    compressed stays dense, and a warning says why. From then on the model is frozen, in eval mode, and cannot be saved:
    save it before.
    """
    layers = two_of_four(model)
    if not layers:
        raise ValueError(
            f"no Linear layer of {type(model).__name__} keeps at most 2 of every 4 inputs: prune it with "
            'structure="2:4" first'
        )
    _require_gpu(layers)
    reasons = {name: obstacle(model, name) for name in layers}
    fitting = [name for name, reason in reasons.items() if reason is None]
    if not fitting:
        name, reason = next(iter(reasons.items()))
        raise ValueError(f"none of the {len(layers)} layers that are 2:4 can be compressed; {name}: {reason}")
    for name in layers:
        if reasons[name] is not None:
            warnings.warn(f"{name} is 2:4 and stays dense: {reasons[name]}", stacklevel=2)
    model.requires_grad_(False).eval()
    compressed: dict[int, nn.Parameter] = {}
    for name in fitting:
        _replace(model, name, compressed)
    return model


def two_of_four(model: nn.Module) -> dict[str, nn.Linear | Conv1D]:
    """The layers of which every group of four inputs keeps at most two."""
    return {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear | Conv1D) and is_two_of_four(_as_matrix(layer))
    }


def is_two_of_four(matrix: Tensor) -> bool:
    """Outputs × inputs: does every group of four inputs keep at most two?"""
    if matrix.dim() != 2 or matrix.shape[1] % 4 or matrix.layout != torch.strided or matrix.numel() == 0:
        return False
    return int((matrix != 0).unflatten(1, (-1, 4)).sum(-1).max()) <= 2


def obstacle(model: nn.Module, name: str) -> str | None:
    """Why this layer cannot be compressed; None if it can."""
    layer = model.get_submodule(name)
    matrix = _as_matrix(layer)
    outputs, inputs = matrix.shape
    if matrix.dtype not in DTYPES:
        return f"its weight is {matrix.dtype}, call model.to(torch.bfloat16) first"
    if outputs % MULTIPLES[0] or inputs % MULTIPLES[1]:
        return f"its {outputs} outputs and {inputs} inputs are no multiples of {MULTIPLES[0]} and {MULTIPLES[1]}"
    if layer.bias is not None and layer.bias.dtype != matrix.dtype:
        return f"its bias is {layer.bias.dtype} and its weight {matrix.dtype}"
    parents = name.split(".")[:-1]
    for depth in range(len(parents) + 1):
        if isinstance(model.get_submodule(".".join(parents[:depth])), WEIGHT_READERS):
            return "the module around it reads its weight by itself"
    return None


def _as_matrix(layer: nn.Module) -> Tensor:
    """The weight as outputs × inputs."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight.detach().t() if isinstance(layer, Conv1D) else weight.detach()


def _require_gpu(layers: dict[str, nn.Linear | Conv1D]) -> None:
    for name, layer in layers.items():
        device = layer.weight.device
        if device.type != "cuda":
            raise ValueError(f"{name} lies on {device}: 2:4 runs on a GPU, call model.to('cuda') first")
        if torch.cuda.get_device_capability(device) < (8, 0):
            raise ValueError(
                f"{torch.cuda.get_device_name(device)} multiplies no 2:4 matrices: it takes Ampere or later"
            )


def _replace(model: nn.Module, name: str, compressed: dict[int, nn.Parameter]) -> None:
    layer = model.get_submodule(name)
    weight = layer.weight
    assert isinstance(weight, Tensor)
    if id(weight) not in compressed:  # two layers may share one
        compressed[id(weight)] = nn.Parameter(_compress(_as_matrix(layer).contiguous()), requires_grad=False)
    if isinstance(layer, Conv1D):
        layer = _linear_of(layer)
        model.set_submodule(name, layer)
    layer.weight = compressed[id(weight)]


def _linear_of(layer: Conv1D) -> nn.Linear:
    """A Linear with the Conv1D's bias; its weight is still to come."""
    inputs, outputs = layer.weight.shape
    with torch.device("meta"):
        linear = nn.Linear(inputs, outputs)
    linear.bias = layer.bias
    return linear.train(layer.training)


def _compress(matrix: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*prototype stage", category=UserWarning)
        return torch.sparse.to_sparse_semi_structured(matrix)
