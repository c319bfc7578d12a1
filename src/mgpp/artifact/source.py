"""Any model that there is a folder or a hub id of, and the files that go along with it."""

import shutil
from pathlib import Path
from typing import Any

import transformers
from huggingface_hub import snapshot_download
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel

from mgpp.artifact.load import load_sparse
from mgpp.artifact.model import checked, model_class
from mgpp.artifact.shards import is_sparse
from mgpp.layers import CONFIG_KEY, load_pretrained

# What a tokenizer or a processor saves. A list of what goes along, not of what stays: a folder may hold anything.
COMPANIONS = (
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "*.spm", "spiece.model",
    "sentencepiece*.model", "bpe.codes", "preprocessor_config.json", "processor_config.json", "chat_template.*",
)  # fmt: skip


def load_any(model: str, *, trust_remote_code: bool = False) -> PreTrainedModel:
    """The whole model with its head, in its own types: from a checkpoint, a sparse folder or the hub."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        model = str(folder)
    elif folder.exists() or model.startswith((".", "/", "~")):
        raise FileNotFoundError(f"{model} is no model folder: give one with config.json and weights, or a hub id")
    if is_sparse(model):
        return load_sparse(model)  # type: ignore[return-value]
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ValueError(no_model_in(folder))
    try:
        return _from_pretrained(model, trust_remote_code=trust_remote_code)
    except ValueError as error:
        if "trust_remote_code" in str(error):
            raise ValueError(
                f"{model} needs Python code of its own; if you trust that code, pass --trust-remote-code"
            ) from error
        raise
    except Exception as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if folder.is_dir():
            raise ValueError(
                f"the model in {model} cannot be loaded, is each of its files whole? ({reason})"
            ) from error
        raise OSError(f"the model {model!r} cannot be loaded: check the name and the connection ({reason})") from error


def no_model_in(folder: Path) -> str:
    """What to say of a folder without a config."""
    cure = "give one that save_pretrained wrote, or a hub id"
    if (folder / "run.json").exists():
        cure = "the run there has not ended, and goes on with --resume"
    return f"{folder} holds no config.json, so no model: {cure}"


def _from_pretrained(model: str, *, trust_remote_code: bool) -> PreTrainedModel:
    config = checked(AutoConfig.from_pretrained(model, trust_remote_code=trust_remote_code))
    if getattr(config, CONFIG_KEY, None) is not None:
        return load_pretrained(model)
    missing: set[str] = set()
    # Many a base model's config names the head that it was pretrained with and that its file does not hold.
    for kind in (model_class(config), *_own_classes(config), AutoModel):
        if kind is None:
            continue
        trust = {} if kind is model_class(config) else {"trust_remote_code": trust_remote_code}
        loaded: Any = kind.from_pretrained(model, dtype="auto", output_loading_info=True, **trust)
        network, info = loaded
        if not info["missing_keys"]:
            return network.eval()
        missing = missing or set(info["missing_keys"])
    raise ValueError(
        f"the weights of {model} lack {', '.join(sorted(missing)[:3])}, which would be random: fine-tune it first"
    )


def _own_classes(config: PreTrainedConfig) -> list[Any]:
    """The Auto classes for which a model's own code has one; the one that its weights were saved from has no gaps."""
    own = getattr(config, "auto_map", None) or {}
    return [getattr(transformers, name, None) for name in own if name.startswith("AutoModelFor")]


def copy_companions(model: str, folder: Path) -> list[str]:
    """Copy the tokenizer's files as they are; returns their names."""
    source = Path(model).expanduser()
    if not source.is_dir():
        source = Path(snapshot_download(model, allow_patterns=list(COMPANIONS)))
    found = sorted({path for pattern in COMPANIONS for path in source.glob(pattern) if path.is_file()})
    for path in found:
        _require_own(path, source)
        shutil.copyfile(path, folder / path.name)
    return [path.name for path in found]


def _require_own(path: Path, folder: Path) -> None:
    """Refuse a link to somewhere else: a folder may come from anybody, and what is exported may be pushed.

    In the hub's cache a model's files are links to its blobs.
    """
    real, home = path.resolve(), folder.resolve()
    if not real.is_relative_to(home) and real.parent != home.parent.parent / "blobs":
        raise ValueError(f"{path} is a link that leads out of the model's folder: put the file itself there")
