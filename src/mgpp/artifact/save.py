"""`save_sparse`: a model into a folder, its zeros left out."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mgpp.artifact.draft import drafted
from mgpp.artifact.layout import SEPARATOR, Layout
from mgpp.artifact.model import Tensors, model_class, own_config, shapes_only, tensors_of
from mgpp.artifact.precision import Precision, Values
from mgpp.artifact.shards import INDEX_FILE, STEM, read_size, remove_others
from mgpp.artifact.write import write_shards
from mgpp.artifact.zstd import require_zstd
from mgpp.targets import unwrap


def save_sparse(
    model: nn.Module,
    folder: str | Path,
    *,
    values: Values = "fp32",
    embeddings: Values | None = None,
    zstd: bool = False,
    shard_size: int | str = "5GB",
    tokenizer: Any = None,
) -> dict[str, Any]:
    """Write `model` with its zeros left out, its config and, if given, its tokenizer; returns the sizes.

    With `values="fp32"` every number comes back bit for bit; bf16, fp16 and int8 (one scale a row) round matrices.
    `embeddings` may differ; beside int8 they stay as they are unless it says int8 too. `zstd` compresses what is
    written, without loss (pip install 'mgpp[zstd]'). The files appear in the folder when all of them are on the disk.
    """
    folder = Path(folder).expanduser()
    precision, limit = Precision(values=values, embeddings=embeddings), read_size(shard_size)
    if zstd:
        require_zstd()
    model = unwrap(model)
    tensors = tensors_of(model)
    _check(model, tensors)
    with drafted(folder, last=STEM) as draft:
        if isinstance(model, PreTrainedModel):
            _save_config(model, draft)
        if tokenizer is not None:
            tokenizer.save_pretrained(draft)
        layouts = write_shards(tensors, draft, precision=precision, zstd=zstd, limit=limit)
    remove_others(folder, keep={*layouts, *([INDEX_FILE] if len(layouts) > 1 else [])})
    return summarise(folder, layouts)


def summarise(folder: Path, layouts: dict[str, Layout]) -> dict[str, Any]:
    """What the files hold; `dense_bytes` is what the same tensors take in a plain checkpoint."""
    records = [record for layout in layouts.values() for record in layout.records.values()]
    files = {name: (folder / name).stat().st_size for name in layouts}
    dense = sum(record.nbytes for record in records)
    return {
        "files": files,
        "bytes": sum(files.values()),
        "dense_bytes": dense,
        "ratio": round(dense / sum(files.values()), 3),
        "tensors": len(records),
        "sparse_tensors": sum(record.kept is not None for record in records),
    }


def _check(model: nn.Module, tensors: Tensors) -> None:
    for name, tensor in tensors.tensors.items():
        if SEPARATOR in name:
            raise ValueError(f"the name {name!r} holds {SEPARATOR!r}, which separates names from parts: rename it")
        if tensor.is_meta:
            raise ValueError(f"{name} is on the meta device, it has no numbers: load the weights first")
        if type(tensor) not in (Tensor, nn.Parameter) or tensor.layout is not torch.strided:
            raise ValueError(f"{name} is a {type(tensor).__name__} ({tensor.layout}): only plain tensors can be saved")
    if isinstance(model, PreTrainedModel):
        _check_loadable(model, tensors)


def _check_loadable(model: PreTrainedModel, tensors: Tensors) -> None:
    """What the config makes must have the same tensors: else nobody could load the file."""
    if getattr(model, "peft_config", None) or getattr(model, "_hf_peft_config_loaded", False):
        raise ValueError("the model carries a PEFT adapter: merge it first (model.merge_and_unload())")
    if getattr(model, "hf_quantizer", None) is not None:
        raise ValueError("the model is quantised already: save it with save_pretrained")
    config = own_config(model)
    if model_class(config) is not type(model):
        return  # somebody's own class: load_sparse(folder, model=...) fills one that they make
    made = tensors_of(shapes_only(config))
    expected = {name: made.tensors[made.tied.get(name, name)].shape for name in (*made.tensors, *made.tied)}
    found = {name: tensors.tensors[tensors.tied.get(name, name)].shape for name in (*tensors.tensors, *tensors.tied)}
    if expected != found:
        odd = next(name for name in {**found, **expected} if expected.get(name) != found.get(name))
        raise ValueError(
            f"{type(model).__name__} was changed after it was made: its config gives {odd} the shape "
            f"{_shown(expected.get(odd))} and it has {_shown(found.get(odd))}; save it before that (mgpp.accelerate "
            "comes last)"
        )


def _shown(shape: Any) -> str:
    return "none" if shape is None else str(list(shape))


def _save_config(model: PreTrainedModel, draft: Path) -> None:
    own_config(model).save_pretrained(draft)
    if model.can_generate() and model.generation_config is not None:
        model.generation_config.save_pretrained(draft)
