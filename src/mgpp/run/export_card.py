"""The card of an exported model: what it is, how to load it, what it scores, and what was done to it before."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from mgpp.run.card import license_in, read_card, read_front_matter
from mgpp.run.folder import RESULT_FILE, RUN_FILE

# Sections of a card of mgpp's that stay true of what is exported from its folder.
KEPT = ("Training", "Method")
# The hub shows how to load a model with the library that is named here.
_LIBRARY = {"sparse": "mgpp", "checkpoint": "transformers", "onnx": "onnx", "openvino": "openvino"}


def make_export_card(model: str, result: Mapping[str, Any]) -> str:
    """`model` is what was exported; its licence, and what its card tells of its pruning, are carried over."""
    text = read_card(model)
    metadata, run = read_front_matter(text), _run_of(model)
    parts = [
        _front(model, metadata, result),
        _summary(model, run, result),
        _loading(result),
        _file(result),
        _scores(run, result) or _section(text, "Scores"),
        *(_section(text, name) for name in KEPT if "mgpp" in _tags(metadata)),
        _layers(result),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def exported_in(folder: Path) -> str | None:
    """The format of the export that lies in a folder, as its card tells; None where none does."""
    metadata = read_front_matter(read_card(str(folder)))
    if "mgpp" not in _tags(metadata) or (folder / RUN_FILE).exists():
        return None
    formats = {library: name for name, library in _LIBRARY.items()}
    return formats.get(str(metadata.get("library_name")))


def _run_of(model: str) -> dict[str, Any] | None:
    """The result of the run that made this folder, if one did."""
    path = Path(model).expanduser() / RESULT_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"method", "after", "config"} <= found.keys() else None


def _front(model: str, metadata: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    carried = {key: metadata[key] for key in ("base_model", "pipeline_tag", "language", "datasets") if key in metadata}
    if "base_model" not in carried and not Path(model).expanduser().is_dir():
        carried["base_model"] = model
    front = {
        **carried,
        **license_in(metadata),
        "library_name": _LIBRARY[result["format"]],
        "tags": list(dict.fromkeys(["mgpp", *_tags(metadata), *(["sparse", "pruned"] if result["zeros"] else [])])),
    }
    return f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---"


def _tags(metadata: Mapping[str, Any]) -> list[str]:
    tags = metadata.get("tags")
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


def _summary(model: str, run: Mapping[str, Any] | None, result: Mapping[str, Any]) -> str:
    name = Path(model).name if run is None else Path(run["config"]["model"]).name
    share = f"{result['zeros']:,} of {result['prunable']:,} prunable weights are zero"
    how = {
        "sparse": f"Stored without its zeros, in {result['bytes']:,} bytes; dense it takes {result['dense_bytes']:,}, "
        f"{result['ratio']:.2f} times as many.",
        "checkpoint": "An ordinary checkpoint: it stores its zeros.",
    }.get(
        result["format"], "For a dense engine: it stores the zeros and computes with them, so they save no time here."
    )
    return f"# {name}, {result['sparsity']:.1%} sparse\n\n{share}. {how}"


def _loading(result: Mapping[str, Any]) -> str:
    kind = result["architecture"]
    code = {
        "sparse": 'import mgpp\n\nmodel = mgpp.load_sparse("path/or/hub-id")  # a plain Transformers model',
        "checkpoint": f'from transformers import {kind}\n\nmodel = {kind}.from_pretrained("path/or/hub-id")',
        "onnx": 'import onnxruntime\n\nsession = onnxruntime.InferenceSession("model.onnx")',
        "openvino": 'import openvino\n\nmodel = openvino.compile_model("openvino_model.xml", "CPU")',
    }[result["format"]]
    needs = "\n\nNeeds `pip install 'mgpp[zstd]'`." if result.get("zstd") else ""
    return f"```python\n{code}\n```{needs}"


def _file(result: Mapping[str, Any]) -> str:
    rows = {"format": result["format"], "bytes": f"{result['bytes']:,}", "dense": f"{result['dense_bytes']:,} bytes"}
    if result["format"] == "sparse":
        rows |= {key: str(result[key]) for key in ("values", "embeddings", "zstd")}
        rows["read back"] = "exact, bit for bit" if result["exact"] else f"within {result['max_error']:.3g}"
    if "max_difference" in result:
        rows["inputs"] = ", ".join(result["inputs"])
        rows["largest difference from PyTorch"] = f"{result['max_difference']:.3g}"
    lines = [f"| {key} | {value} |" for key, value in rows.items()]
    return "\n".join(["## The file", "", "| | |", "|---|---|", *lines])


def _scores(run: Mapping[str, Any] | None, result: Mapping[str, Any]) -> str:
    """What was measured on export; else what the run had measured of the model as it was then."""
    if "before" in result:
        rows = [
            f"| {name} | {value:.4f} | {result['after'][name]:.4f} |"
            for name, value in sorted(result["before"].items())
        ]
        where = f"{result['rows']:,} rows of `{result['data']}`."
        return "\n".join(["## Scores", "", "| | before export | exported |", "|---|---|---|", *rows, "", where])
    if run is None:
        return ""
    rows = [f"| {name} | {value:.4f} |" for name, value in sorted(run["after"].items())]
    where = f"{run['eval_rows']:,} evaluation rows, after pruning and before export."
    return "\n".join(["## Scores", "", "| | |", "|---|---|", *rows, "", where])


def _section(card: str, name: str) -> str:
    found = re.search(rf"^## {name}\n.*?(?=^## |\Z)", card, flags=re.MULTILINE | re.DOTALL)
    return found[0].strip() if found else ""


def _layers(result: Mapping[str, Any]) -> str:
    if not result["layers"]:
        return ""
    rows = [
        f"| {layer['name']} | {layer['zeros']:,} | {layer['count']:,} | {layer['zeros'] / layer['count']:.4f} |"
        for layer in result["layers"]
    ]
    return "\n".join(["## Sparsity by layer", "", "| weight | zeros | of | sparsity |", "|---|---|---|---|", *rows])
