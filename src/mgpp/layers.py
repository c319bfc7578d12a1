"""The layer W = UV + S, how it takes a Linear layer's place, and how it becomes one again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from mgpp.functional.lowrank import joined, rank_for, split

CONFIG_KEY = "mgpp_low_rank"
# They read a Linear's weight without calling it, in their fast path: they would compute with S alone.
WEIGHT_READERS = (nn.MultiheadAttention, nn.TransformerEncoderLayer)


class LowRankSparse(nn.Module):
    """y = x(UV)ᵀ + xSᵀ + b.  `left` is U (out × r), `right` is V (r × in), and `weight` is S (out × in).

    S is the parameter that W was, under its name, so that optimizers, globs and records find it where W was. In a state
    dict it has a leading dimension of 1: plain `from_pretrained` stops at that instead of taking S for W.
    """

    weight: nn.Parameter
    bias: nn.Parameter | None

    def __init__(
        self, weight: nn.Parameter, left: Tensor, right: Tensor, bias: nn.Parameter | None, *, conv1d: bool = False
    ) -> None:
        super().__init__()
        self.weight = weight
        # Contiguous, as they will be when loaded: a product's last bits depend on how its factors lie in memory.
        self.left = nn.Parameter(left.contiguous())
        self.right = nn.Parameter(right.contiguous())
        self.register_parameter("bias", bias)
        self.conv1d = conv1d

    @classmethod
    def replacing(cls, layer: nn.Linear | Conv1D, rank: int, *, fill: bool = True) -> "LowRankSparse":
        """The same function as `layer`, whose parameters it takes over; with fill=False only the same shape."""
        weight = layer.weight
        assert isinstance(weight, nn.Parameter)
        dense = weight.detach().T if isinstance(layer, Conv1D) else weight.detach()
        if fill:
            left, right, rest = split(dense, rank)
        else:
            left, right, rest = dense.new_zeros(dense.shape[0], rank), dense.new_zeros(rank, dense.shape[1]), dense
        weight.data = rest.contiguous()
        return cls(weight, left, right, layer.bias, conv1d=isinstance(layer, Conv1D))

    def merge(self) -> nn.Linear | Conv1D:
        """The plain layer with W = UV + S, which takes over the parameters. Zeros of S do not survive it."""
        dense = joined(self.left.detach(), self.right.detach(), self.weight.detach())
        out_features, in_features = dense.shape
        with torch.device("meta"):  # its parameters are replaced at once
            plain = Conv1D(out_features, in_features) if self.conv1d else nn.Linear(in_features, out_features)
        self.weight.data = dense.T.contiguous() if self.conv1d else dense
        plain.weight = self.weight
        plain.register_parameter("bias", self.bias)
        return plain.train(self.training)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.linear(x, self.right), self.left) + F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        out_features, in_features = self.weight.shape
        return f"{in_features}, {out_features}, rank={self.left.shape[1]}, bias={self.bias is not None}"

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"] = destination[prefix + "weight"].unsqueeze(0)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        saved = state_dict.get(prefix + "weight")
        if saved is not None and saved.ndim == 3:
            state_dict[prefix + "weight"] = saved.squeeze(0)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def factorize_(model: nn.Module, targets: Mapping[str, nn.Parameter], *, ratio: float) -> dict[str, nn.Parameter]:
    """Put a LowRankSparse in the place of every layer whose weight is a target; returns all U and V, by name.

    U and V together have about `ratio` times as many numbers as the layer's weight. Layers that are LowRankSparse
    already stay as they are.
    """
    layers = _owners(model, targets)
    fresh = {name: layer for name, layer in layers.items() if not isinstance(layer, LowRankSparse)}
    _require_replaceable(model, fresh)
    for name, layer in fresh.items():
        model.set_submodule(name, LowRankSparse.replacing(layer, rank_for(*layer.weight.shape, ratio=ratio)))
    if fresh:
        _note(model)
    return {f"{name}.{part}": model.get_parameter(f"{name}.{part}") for name in layers for part in ("left", "right")}


def merge_(model: nn.Module) -> nn.Module:
    """Make every LowRankSparse a plain layer again, W = UV + S; the model saves and loads as it did before."""
    for name, layer in list(model.named_modules()):
        if isinstance(layer, LowRankSparse):
            model.set_submodule(name, layer.merge())
    _note(model)
    return model


def load_pretrained(folder: str | Path) -> PreTrainedModel:
    """The model that `save_pretrained` wrote into `folder`, with its LowRankSparse layers; a plain one loads too."""
    folder = Path(folder)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    noted = getattr(config, CONFIG_KEY, None)
    kind = getattr(transformers, config.architectures[0])
    if noted is None:
        return kind.from_pretrained(folder)
    model = replace_noted_(kind._from_config(config))
    _load(model, _read_weights(folder))
    return model.eval()


def replace_noted_(model: PreTrainedModel) -> PreTrainedModel:
    """Make the layers that the config notes LowRankSparse ones: of the right shapes, and with no numbers yet."""
    noted = getattr(model.config, CONFIG_KEY, None)
    for name, rank in ({} if noted is None else noted["ranks"]).items():
        layer: Any = model.get_submodule(name)
        model.set_submodule(name, LowRankSparse.replacing(layer, rank, fill=False))
    return model


def _owners(model: nn.Module, targets: Mapping[str, nn.Parameter]) -> dict[str, Any]:
    wanted = {id(weight): name for name, weight in targets.items()}
    found: dict[int, str] = {}
    layers: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        for weight in module._parameters.values():
            if id(weight) not in wanted:
                continue
            if id(weight) in found:
                raise ValueError(
                    f"{wanted[id(weight)]} is shared by {found[id(weight)]} and {name}: a shared weight cannot be "
                    "split, leave it out with exclude="
                )
            found[id(weight)] = name
            layers[name] = module
    return layers


def _require_replaceable(model: nn.Module, layers: Mapping[str, nn.Module]) -> None:
    readers = tuple(name for name, module in model.named_modules() if isinstance(module, WEIGHT_READERS))
    for name, layer in layers.items():
        if type(layer) not in (nn.Linear, Conv1D) or name.startswith(tuple(f"{reader}." for reader in readers)):
            raise ValueError(
                f"{name} ({type(layer).__name__}) is not a plain Linear layer that the model calls: it cannot be split "
                "into UV + S, leave it out with exclude="
            )


def _note(model: nn.Module) -> None:
    """What `load_pretrained` must know travels in config.json."""
    config = getattr(model, "config", None)
    if not isinstance(model, PreTrainedModel) or config is None:
        return
    ranks = {name: layer.left.shape[1] for name, layer in model.named_modules() if isinstance(layer, LowRankSparse)}
    if ranks:
        setattr(config, CONFIG_KEY, {"load_with": "mgpp.load_pretrained(folder)", "ranks": ranks})
    elif hasattr(config, CONFIG_KEY):
        delattr(config, CONFIG_KEY)


def _read_weights(folder: Path) -> dict[str, Tensor]:
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return load_file(folder / "model.safetensors")
    shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    return {name: tensor for shard in shards for name, tensor in load_file(folder / shard).items()}


def _load(model: PreTrainedModel, state: dict[str, Tensor]) -> None:
    outcome = model.load_state_dict(state, strict=False)
    model.tie_weights()
    own = model.state_dict(keep_vars=True)
    loaded = {id(value) for name, value in own.items() if name in state}
    missing = [name for name in outcome.missing_keys if id(own[name]) not in loaded]  # a tied weight is saved once
    if missing or outcome.unexpected_keys:
        raise ValueError(
            f"the saved weights do not fit the model: missing {missing}, not expected {outcome.unexpected_keys}"
        )
