"""Any model that there is a folder or a hub id of, and the files that go along with it."""

import shutil
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from transformers import AutoConfig, AutoModel, PreTrainedModel

from mgpp.artifact.load import load_sparse
from mgpp.artifact.model import model_class
from mgpp.artifact.shards import is_sparse
from mgpp.layers import CONFIG_KEY, load_pretrained

# What a tokenizer or a processor saves. A list of what goes along, not of what stays: a folder may hold anything.
COMPANIONS = (
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "*.spm", "spiece.model",
    "sentencepiece*.model", "bpe.codes", "preprocessor_config.json", "processor_config.json", "chat_template.*",
)  # fmt: skip


def load_any(model: str) -> PreTrainedModel:
    """The whole model with its head, in its own types: from a checkpoint, a sparse folder or the hub."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        model = str(folder)
    elif folder.exists() or model.startswith((".", "/", "~")):
        raise FileNotFoundError(f"{model} is no model folder: give one with config.json and weights, or a hub id")
    if is_sparse(model):
        return load_sparse(model)  # type: ignore[return-value]
    try:
        return _from_pretrained(model)
    except ValueError:
        raise
    except Exception as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise OSError(f"the model {model!r} cannot be loaded: check the name and the connection ({reason})") from error


def _from_pretrained(model: str) -> PreTrainedModel:
    config = AutoConfig.from_pretrained(model)
    if getattr(config, CONFIG_KEY, None) is not None:
        return load_pretrained(model)
    missing: set[str] = set()
    # Many a base model's config names the head that it was pretrained with and that its file does not hold.
    for kind in (model_class(config), AutoModel):
        if kind is None:
            continue
        loaded: Any = kind.from_pretrained(model, dtype="auto", output_loading_info=True)
        network, info = loaded
        if not info["missing_keys"]:
            return network.eval()
        missing = missing or set(info["missing_keys"])
    raise ValueError(
        f"the weights of {model} lack {', '.join(sorted(missing)[:3])}, which would be random: fine-tune it first"
    )


def copy_companions(model: str, folder: Path) -> list[str]:
    """Copy the tokenizer's files as they are; returns their names."""
    source = Path(model).expanduser()
    if not source.is_dir():
        source = Path(snapshot_download(model, allow_patterns=list(COMPANIONS)))
    found = sorted({path for pattern in COMPANIONS for path in source.glob(pattern) if path.is_file()})
    for path in found:
        shutil.copyfile(path, folder / path.name)
    return [path.name for path in found]
