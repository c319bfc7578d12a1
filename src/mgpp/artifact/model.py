"""A model as named tensors, and a model without weights to put them into."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from accelerate import init_empty_weights
from torch import Tensor, nn
from transformers import AutoConfig, GenerationConfig, PreTrainedConfig, PreTrainedModel

from mgpp.layers import replace_noted_
from mgpp.targets import plain_name

CONFIG_FILE, GENERATION_FILE = "config.json", "generation_config.json"
MOST_LAYERS = 10_000


@dataclass(frozen=True, kw_only=True)
class Tensors:
    """Parameters and saved buffers by name, each once; `tied` gives the further names of one that has several."""

    tensors: Mapping[str, Tensor]
    tied: Mapping[str, str]
    embeddings: frozenset[str]


def tensors_of(model: nn.Module) -> Tensors:
    first: dict[int, str] = {}
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    for name, tensor in _named(model):
        if id(tensor) in first:
            tied[name] = first[id(tensor)]
        else:
            first[id(tensor)] = name
            tensors[name] = tensor
    embedding = (nn.Embedding, nn.EmbeddingBag)
    weights = {id(module.weight) for module in model.modules() if isinstance(module, embedding)}
    embeddings = frozenset(name for name, tensor in tensors.items() if id(tensor) in weights)
    return Tensors(tensors=tensors, tied=tied, embeddings=embeddings)


def assign(model: nn.Module, name: str, value: Tensor) -> None:
    """Put a tensor in the place of the one with this name."""
    owner, _, leaf = name.rpartition(".")
    module = model.get_submodule(owner)
    if leaf in module._parameters:
        module._parameters[leaf] = value if isinstance(value, nn.Parameter) else nn.Parameter(value)
    else:
        module._buffers[leaf] = value


def as_parameter(value: Tensor, *, like: Tensor) -> Tensor:
    if not isinstance(like, nn.Parameter):
        return value
    return nn.Parameter(value, requires_grad=like.requires_grad and value.is_floating_point())


def real_names(model: nn.Module) -> dict[str, str]:
    """{the name in a checkpoint: the name in this model}, which differ in a block that was compiled by itself."""
    return {plain_name(name): name for name, _ in _named(model, plain=False)}


def _named(model: nn.Module, *, plain: bool = True) -> Iterator[tuple[str, Tensor]]:
    for prefix, module in model.named_modules(remove_duplicate=False):
        own: dict[str, Tensor | None] = {**module._parameters}
        own |= {key: value for key, value in module._buffers.items() if key not in module._non_persistent_buffers_set}
        for key, value in own.items():
            name = f"{prefix}.{key}" if prefix else key
            if value is not None:
                yield (plain_name(name) if plain else name), value


# A model from its config


def own_config(model: PreTrainedModel) -> PreTrainedConfig:
    """As save_pretrained would write it."""
    config = copy.deepcopy(model.config)
    config.architectures = [type(model).__name__]
    config.dtype = model.dtype
    return config


def read_config(folder: Path) -> PreTrainedConfig:
    if not (folder / CONFIG_FILE).is_file():
        raise ValueError(f"{folder} holds no {CONFIG_FILE}: give the model to load into (model=), or the whole folder")
    with _told(f"the config in {folder} cannot be read"):
        return checked(AutoConfig.from_pretrained(folder, trust_remote_code=False))


def checked(config: PreTrainedConfig) -> PreTrainedConfig:
    """Refuse what transformers takes from a file as it is, and we and it then stumble over, or never end with."""
    names = config.architectures
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"architectures={names!r}: it must be a list of names")
    most = {"num_hidden_layers": MOST_LAYERS, "num_attention_heads": None, "hidden_size": None, "vocab_size": None}
    for name, limit in most.items():
        size = getattr(config.get_text_config(), name, None)
        if isinstance(size, int) and (size < 0 or (limit is not None and size > limit)):
            raise ValueError(f"{name}={size}: no model has so many")
    return config


def model_class(config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """The class of transformers that the config names; None for one that somebody else wrote."""
    for name in config.architectures or ():
        found = getattr(transformers, str(name), None)
        if isinstance(found, type) and issubclass(found, PreTrainedModel):
            return found
    return None


def shapes_only(config: PreTrainedConfig) -> PreTrainedModel:
    """The model with shapes and no numbers at all: nothing is allocated."""
    with torch.device("meta"):
        return _built(config)


def without_weights(config: PreTrainedConfig) -> PreTrainedModel:
    """The model with parameters that have no numbers; buffers that no file holds (positions, frequencies) are real."""
    with init_empty_weights(include_buffers=False):
        return _built(config)


def _built(config: PreTrainedConfig) -> PreTrainedModel:
    config = copy.deepcopy(config)  # building sets its dtype
    kind = model_class(config)
    if kind is None:
        raise ValueError(
            f"{config.architectures} is no model of transformers {transformers.__version__}: make the model yourself "
            "and pass it (load_sparse(folder, model=model))"
        )
    with _told(f"{kind.__name__} cannot be made from its config"):
        return replace_noted_(kind._from_config(config))


def add_generation_config(model: PreTrainedModel, folder: Path) -> None:
    if model.can_generate() and (folder / GENERATION_FILE).is_file():
        with _told(f"{folder / GENERATION_FILE} cannot be read"):
            model.generation_config = GenerationConfig.from_pretrained(folder)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """transformers answers a bad config with whatever it met on the way: a KeyError, a ZeroDivisionError."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{what} ({type(error).__name__}: {reason}): fetch or export it again") from error
