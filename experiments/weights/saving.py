"""Tensors, a config and a tokenizer as one folder."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


def save(
    kind: type[PreTrainedModel],
    config: PreTrainedConfig,
    weights: dict[str, torch.Tensor],
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
) -> None:
    """Writes the tensors themselves: a model made from its config may tie what the checkpoint keeps apart."""
    folder.mkdir(parents=True, exist_ok=True)
    config.architectures = [kind.__name__]
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    _, fit = kind.from_pretrained(folder, output_loading_info=True)
    if fit["missing_keys"] or fit["unexpected_keys"] or fit["mismatched_keys"]:
        raise ValueError(f"the weights do not fit the model: {fit}")
