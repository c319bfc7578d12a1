"""A trained model into the form that it is used in: sparse on the disk, an ordinary checkpoint, or a dense engine."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from torch import nn
from transformers import PreTrainedModel

from mgpp.artifact.draft import drafted
from mgpp.artifact.engines import FOR_ONNX, require, to_onnx, to_openvino
from mgpp.artifact.hub import is_hub_name, push
from mgpp.artifact.precision import Precision, Values
from mgpp.artifact.save import save_sparse
from mgpp.artifact.shards import STEM
from mgpp.artifact.source import copy_companions, load_any
from mgpp.artifact.verify import verify
from mgpp.layers import merge_
from mgpp.run.card import CARD_FILE
from mgpp.run.export_card import exported_in, make_export_card
from mgpp.run.result import count_zeros, provenance
from mgpp.targets import find_targets

Format = Literal["sparse", "checkpoint", "onnx", "openvino"]
ENGINES: tuple[Format, ...] = ("onnx", "openvino")
DENSE: tuple[Format, ...] = ("checkpoint", *ENGINES)
Score = Callable[[str], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """`model` (a folder or a hub id) into the folder `output`, and from there to `push`, a name on the hub.

    `values`, `embeddings`, `zstd` and `shard_size` are those of mgpp.save_sparse.
    """

    model: str
    output: str
    format: Format = "sparse"
    values: Values = "fp32"
    embeddings: Values | None = None
    zstd: bool = False
    shard_size: str = "5GB"
    push: str | None = None
    private: bool = False
    overwrite: bool = False
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        if self.format not in get_args(Format):
            raise ValueError(f"format={self.format!r} is not one of {', '.join(get_args(Format))}")
        Precision(values=self.values, embeddings=self.embeddings)  # refuses what it does not know
        for name, default in (("values", "fp32"), ("embeddings", None), ("zstd", False)):
            if self.format != "sparse" and getattr(self, name) != default:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is for the sparse format: leave it out of {self.format}"
                )
        if self.push is not None and not is_hub_name(self.push):
            raise ValueError(f"push={self.push!r}: write it as OWNER/NAME")
        if self.private and self.push is None:
            raise ValueError("private=True and nothing to push: name the repository (--push OWNER/NAME)")

    @property
    def folder(self) -> Path:
        return Path(self.output).expanduser()


def export(
    config: ExportConfig, *, score: Score | None = None, tell: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """Write, read back, compare; `score` gives the metrics of a model folder, before and after.

    The files appear in the folder when all of this has succeeded.
    """
    if score is not None and config.format in ENGINES:
        raise ValueError(f"{config.format} is compared with PyTorch by its outputs: leave --data out")
    _check_folder(config)
    model = load_any(config.model, trust_remote_code=config.trust_remote_code)
    if config.format in DENSE:
        merge_(model)  # a low-rank sum is a plain matrix to all but mgpp
    result: dict[str, Any] = {
        "format": config.format,
        "dense": config.format in DENSE,
        "model": config.model,
        "architecture": type(model).__name__,
        "output": config.output,
    }
    if score is not None:
        result |= _scored("before", score(config.model))
        tell(f"before: {_described(result['before'])}")
    with drafted(config.folder, last=STEM) as draft:
        result |= _WRITERS[config.format](model, draft, config)
        copy_companions(config.model, draft)
        if score is not None:
            result |= _scored("after", score(str(draft)))
            tell(f"after:  {_described(result['after'])}")
        card = make_export_card(config.model, {**result, **provenance()})
        (draft / CARD_FILE).write_text(card, encoding="utf-8")
        result["files"] = {path.name: path.stat().st_size for path in sorted(draft.iterdir()) if path.is_file()}
    result |= provenance()
    if config.push is not None:
        result["url"] = push(config.folder, config.push, files=list(result["files"]), private=config.private)
    return result


def _check_folder(config: ExportConfig) -> None:
    folder, source = config.folder, Path(config.model).expanduser()
    if folder.exists() and source.exists() and folder.samefile(source):
        raise ValueError(f"{folder} is the model's own folder: choose another for the output")
    if not (folder.is_dir() and any(folder.iterdir())):
        return
    there = exported_in(folder)
    if there != config.format:
        what = "files that are no export's" if there is None else f"an export in another format ({there})"
        raise ValueError(f"{folder} holds {what}: choose another folder")
    if not config.overwrite:
        raise ValueError(f"{folder} holds an export: replace it (--overwrite), or choose another folder")


def _sparse(model: PreTrainedModel, draft: Path, config: ExportConfig) -> dict[str, Any]:
    written = save_sparse(
        model,
        draft,
        values=config.values,
        embeddings=config.embeddings,
        zstd=config.zstd,
        shard_size=config.shard_size,
    )
    checks = verify(draft, model)
    exact = all(check.exact for check in checks.values())
    if config.values == "fp32" and config.embeddings in (None, "fp32") and not exact:
        raise RuntimeError("what was read back is not what was written")
    return {
        **{key: written[key] for key in ("bytes", "dense_bytes", "ratio")},
        "values": config.values,
        "embeddings": Precision(values=config.values, embeddings=config.embeddings).of_embeddings,
        "zstd": config.zstd,
        "exact": exact,
        "max_error": max(check.max_error for check in checks.values()),
        **_sparsity(model, {name: check.zeros for name, check in checks.items()}),
    }


def _checkpoint(model: PreTrainedModel, draft: Path, config: ExportConfig) -> dict[str, Any]:
    model.save_pretrained(draft)
    return {**_sizes(model, draft, "*.safetensors"), **_sparsity(model)}


def _onnx(model: PreTrainedModel, draft: Path, config: ExportConfig) -> dict[str, Any]:
    sparsity = _sparsity(model)
    model.config.save_pretrained(draft)
    engine = to_onnx(model, draft / "model.onnx")
    return {**_sizes(model, draft, "model.onnx*"), **engine, **sparsity}


def _openvino(model: PreTrainedModel, draft: Path, config: ExportConfig) -> dict[str, Any]:
    require(*FOR_ONNX, "openvino", extra="openvino")
    sparsity = _sparsity(model)
    model.config.save_pretrained(draft)
    with tempfile.TemporaryDirectory() as folder:
        traced = to_onnx(model, Path(folder) / "model.onnx")
        engine = to_openvino(model, Path(folder) / "model.onnx", draft / "openvino_model.xml")
    return {**_sizes(model, draft, "openvino_model.*"), "inputs": traced["inputs"], **engine, **sparsity}


_WRITERS: dict[str, Callable[[PreTrainedModel, Path, ExportConfig], dict[str, Any]]] = {
    "sparse": _sparse,
    "checkpoint": _checkpoint,
    "onnx": _onnx,
    "openvino": _openvino,
}


def _sizes(model: nn.Module, draft: Path, pattern: str) -> dict[str, Any]:
    written = sum(path.stat().st_size for path in draft.glob(pattern))
    dense = sum(parameter.nbytes for parameter in model.parameters())
    return {"bytes": written, "dense_bytes": dense, "ratio": round(dense / written, 3)}


def _sparsity(model: nn.Module, stored: Mapping[str, int] | None = None) -> dict[str, Any]:
    """By layer, as stored. A model in which nothing is prunable has none."""
    try:
        targets = find_targets(model)
    except ValueError:
        targets = {}
    zeros = count_zeros(targets) if stored is None else {name: stored[name] for name in targets}
    prunable = sum(weight.numel() for weight in targets.values())
    layers = [{"name": name, "zeros": zeros[name], "count": weight.numel()} for name, weight in targets.items()]
    total = sum(zeros.values())
    return {"sparsity": total / prunable if prunable else 0.0, "zeros": total, "prunable": prunable, "layers": layers}


def _scored(when: str, found: Mapping[str, Any]) -> dict[str, Any]:
    return {when: found["metrics"], **{key: found[key] for key in ("metric", "data", "rows")}}


def _described(metrics: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
