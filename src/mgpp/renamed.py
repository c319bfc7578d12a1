"""Weights that a checkpoint holds under other names than the model: experts are one by one there, and a stack here.

transformers' `from_pretrained` stacks them again. Its Trainer, when it resumes, takes a checkpoint's tensors by their
names and only warns of those it does not find: the stacks would go on from wherever the model was loaded from.
"""

import json
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from mgpp.sharding import engine_of
from mgpp.targets import unwrap


@torch.no_grad()
def restore_renamed(model: nn.Module, checkpoint: str | Path) -> list[str]:
    """Fill what `checkpoint` has under other names, in place, and return its names; mostly there is nothing to do."""
    model = unwrap(model)
    saved = _names_in(Path(checkpoint))
    own = model.state_dict(keep_vars=True)
    # An engine that shards the model has its own checkpoint, by its own names. A tied weight is saved under one of its
    # names only: it is what the model does not know by name that has another name there.
    if not isinstance(model, PreTrainedModel) or engine_of(model) is not None or saved <= own.keys():
        return []
    # Layers that a method has changed have other shapes here; those are in the file by their own names.
    loaded = type(model).from_pretrained(checkpoint, dtype="auto", ignore_mismatched_sizes=True).state_dict()
    renamed = [name for name in own if name not in saved and name in loaded]
    for name in renamed:
        own[name].copy_(loaded[name])
    return renamed


def _names_in(folder: Path) -> set[str]:
    """Of all tensors in a plain checkpoint; none where an engine has written one of its own kind."""
    index, file = folder / SAFE_WEIGHTS_INDEX_NAME, folder / SAFE_WEIGHTS_NAME
    if index.is_file():
        return set(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
    if not file.is_file():
        return set()
    with safe_open(file, framework="pt") as tensors:
        return set(tensors.keys())
