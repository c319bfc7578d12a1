"""`mgpp inspect`: what would be pruned from a model, before any weight is downloaded or allocated."""

import json
import logging
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import torch
import transformers
import typer
from rich.console import Console
from rich.table import Table
from torch import nn
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig, PreTrainedModel

from mgpp.artifact import describe, is_sparse
from mgpp.artifact.model import checked
from mgpp.cli.options import say_trusted
from mgpp.targets import as_glob, count_parameters, find_targets

_PIPE_WIDTH = 160  # wide enough that grep sees a weight's name in one piece


def inspect(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A folder with config.json, a config .json file, a hub id, or a model type such as bert.",
            show_default=False,
        ),
    ],
    include: Annotated[
        list[str] | None,
        typer.Option(help="Prune the weights (Linear, experts) that match this glob, and only those. May be repeated."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Leave out the weights that match this glob. May be repeated.")
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="One row for every weight, blocks not folded.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: prunable, total, layers.")] = False,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the Python code that the model brings with it.")
    ] = False,
) -> None:
    """Show which weights of MODEL are pruned. Reads its config only: no weights are downloaded."""
    if trust_remote_code:
        say_trusted(model)
    network = _build(_read_config(model, trust_remote_code), model, trust_remote_code)
    targets = find_targets(network, include=include or (), exclude=exclude or ())
    stored = describe(model) if is_sparse(model) else None
    if as_json:
        typer.echo(json.dumps({**_as_record(network, targets), **({} if stored is None else {"stored": stored})}))
        return
    _print(network, targets, show_all=show_all)
    if stored is not None:
        typer.echo(_told(stored, targets))


def _read_config(model: str, trust_remote_code: bool) -> PreTrainedConfig:
    path = Path(model).expanduser()
    is_type = model in CONFIG_MAPPING
    # A folder that happens to be called bert is meant only if it holds a model.
    if path.exists() and (not is_type or (path / "config.json").exists()):
        _check_file(path)
        return _load(str(path), trust_remote_code, cure="check the values in it")
    if is_type:
        with _explained(f"make a default config of type {model}", cure="give a folder with its config.json"):
            return CONFIG_MAPPING[model]()
    # Owner/name is a hub id; anything else with a separator, or that ends like a file, can only be a path.
    if model.startswith((".", "/", "~")) or model.endswith((".json", "/")) or model.count("/") > 1:
        raise ValueError(f"no folder or file {model!r}: check the path, or give a hub id or a model type such as bert")
    # A mistyped type must not wait for the hub, which takes 23 s to give up when there is no network. The hub's old
    # names without an owner (bert-base-uncased, distilgpt2) have a hyphen, or are not that close to a type.
    if not set("/-") & set(model) and _close_types(model):
        raise ValueError(f"unknown model type {model!r}{_close_types(model)}")
    cure = f"check the name and the connection, or give a folder with its config.json{_close_types(model)}"
    return _load(model, trust_remote_code, cure=cure)


def _check_file(path: Path) -> None:
    """Says what is wrong with a local config: transformers says the same of an empty folder and of a bad file."""
    if path.is_dir():
        if not (path / "config.json").is_file():
            inside = sorted(path.glob("*/config.json"), key=lambda found: found.stat().st_mtime)
            cure = f"did you mean {inside[-1].parent}?" if inside else "give the folder that save_pretrained wrote"
            raise ValueError(f"no config.json in folder {str(path)!r}: {cure}")
        path = path / "config.json"
    if path.suffix != ".json":
        raise ValueError(f"{str(path)!r} is not a .json file: give the folder it is in, or its config.json")
    try:
        fields = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON ({error}): mend it, or save the config again") from error
    kind = fields.get("model_type") if isinstance(fields, dict) else None
    if not isinstance(kind, str):
        raise ValueError(f'{path} has no model_type: add the one it is, such as "model_type": "bert"')
    if kind not in CONFIG_MAPPING and "auto_map" not in fields:
        version = f"transformers {transformers.__version__} does not have it"
        raise ValueError(f"unknown model type {kind!r} in {path}: {version}{_close_types(kind)}")


def _close_types(name: str) -> str:
    close = get_close_matches(name.lower(), list(CONFIG_MAPPING), n=4, cutoff=0.75)
    return f"; did you mean {', '.join(close)}?" if close else ""


def _load(source: str, trust_remote_code: bool, *, cure: str) -> PreTrainedConfig:
    with _explained(f"read the config of {source!r}", cure=cure), _quiet_hub(source):
        return checked(AutoConfig.from_pretrained(source, trust_remote_code=trust_remote_code))


def _build(config: PreTrainedConfig, model: str, trust_remote_code: bool) -> PreTrainedModel:
    """The model without its weights: on the meta device a tensor has a shape and no storage."""
    architecture = _architecture(config)
    name = architecture.__name__ if architecture else f"a model of type {config.model_type}"
    with (
        _explained(f"build {name} from {model!r}", cure="check its config"),
        torch.device("meta"),
    ):
        if architecture:
            return architecture(config)
        # A model with its own code often offers only a class with a head, such as AutoModelForCausalLM.
        own = [auto for auto in getattr(config, "auto_map", None) or () if auto.startswith("AutoModel")]
        auto_class = getattr(transformers, own[0] if own else "AutoModel")
        return auto_class.from_config(config, trust_remote_code=trust_remote_code)


def _architecture(config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    for name in config.architectures or ():
        found = getattr(transformers, name, None)
        if isinstance(found, type) and issubclass(found, PreTrainedModel):
            return found
    return None


@contextmanager
def _explained(what: str, *, cure: str) -> Iterator[None]:
    # transformers and a config's own values raise whatever they meet: KeyError for an unknown activation, ImportError
    # for a missing extra, ZeroDivisionError for zero heads. All are bad input here, and none deserves a traceback.
    try:
        yield
    except Exception as error:
        kind = "" if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: "
        reason = textwrap.shorten(f"{kind}{error}", width=200, placeholder=" …")
        if "trust_remote_code" in str(error):
            cure = "it needs Python code of its own; if you trust that code, pass --trust-remote-code"
        raise ValueError(f"cannot {what} ({reason}): {cure}") from error


@contextmanager
def _quiet_hub(model: str) -> Iterator[None]:
    """The hub logs each of its retries; one line at the end, and a spinner on a terminal, say as much."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with Console(stderr=True).status(f"reading the config of {model}"):
            yield
    finally:
        logger.setLevel(level)


def _as_record(network: nn.Module, targets: Mapping[str, nn.Parameter]) -> dict[str, Any]:
    layers = [{"name": name, "shape": list(weight.shape), "count": weight.numel()} for name, weight in targets.items()]
    return {
        "prunable": sum(weight.numel() for weight in targets.values()),
        "total": count_parameters(network),
        "layers": layers,
    }


def _print(network: nn.Module, targets: Mapping[str, nn.Parameter], *, show_all: bool) -> None:
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, width=_PIPE_WIDTH)
    console.print(type(network).__name__, style="bold")
    console.print(_table_of_weights(targets) if show_all else _table_of_blocks(targets))
    prunable, total = sum(weight.numel() for weight in targets.values()), count_parameters(network)
    console.print(f"\nprunable   {prunable:>15,}")
    console.print(f"total      {total:>15,}")
    console.print(f"share      {prunable / total:>15.1%}")
    if dense := _largest_dense(network, targets):
        console.print(f"kept dense {dense}")


def _told(stored: Mapping[str, Any], targets: Mapping[str, nn.Parameter]) -> str:
    """One line on a sparse folder, from its headers."""
    kept = [(weight.numel(), stored["kept"].get(name)) for name, weight in targets.items()]
    zeros = sum(count - stays for count, stays in kept if stays is not None)
    types = ", ".join([*stored["stored"], *(["zstd"] if stored["zstd"] else [])])
    return (
        f"stored     {stored['bytes']:,} bytes for {stored['dense_bytes']:,} ({stored['ratio']:.2f}×: {types}), "
        f"without {zeros:,} zeros"
    )


def _table_of_weights(targets: Mapping[str, nn.Parameter]) -> Table:
    table = _table("weight", "shape", "count")
    for name, weight in targets.items():
        table.add_row(name, _shape(weight), f"{weight.numel():,}")
    return table


def _table_of_blocks(targets: Mapping[str, nn.Parameter]) -> Table:
    """One row for a matrix that is the same in many blocks, under the name of the stack."""
    table = _table("weight", "shape", "blocks", "count")
    rows: dict[str, dict[tuple[str, str], list[tuple[int, int]]]] = {}
    for name, weight in targets.items():
        stack, block, matrix = _split_at_block(name)
        rows.setdefault(stack, {}).setdefault((matrix, _shape(weight)), []).append((block, weight.numel()))
    for stack, matrices in rows.items():
        if stack:
            table.add_row(stack, style="bold")
        for (matrix, shape), found in matrices.items():
            blocks = _ranges([block for block, _ in found]) if stack else ""
            table.add_row(f"  {matrix}" if stack else matrix, shape, blocks, f"{sum(count for _, count in found):,}")
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column == "count" else "left", overflow="fold")
    return table


def _split_at_block(name: str) -> tuple[str, int, str]:
    """bert.encoder.layer.3.output.dense.weight → bert.encoder.layer, 3, output.dense.weight"""
    parts = name.split(".")
    for position, part in enumerate(parts):
        if position and part.isdigit():
            return ".".join(parts[:position]), int(part), ".".join(parts[position + 1 :])
    return "", 0, name


def _ranges(numbers: list[int]) -> str:
    """[0, 1, 2, 5] → 0-2, 5"""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _shape(weight: nn.Parameter) -> str:
    return " × ".join(str(size) for size in weight.shape)


def _largest_dense(network: nn.Module, targets: Mapping[str, nn.Parameter], limit: int = 3) -> str:
    """What else is big: embeddings, mostly, or weights that are kept in a form which the rule does not know."""
    dense: Counter[str] = Counter()
    for name, parameter in network.named_parameters():
        if name not in targets:
            dense[as_glob(name)] += parameter.numel()
    named = [f"{name} {count:,}" for name, count in dense.most_common(limit)]
    rest = sum(dense.values()) - sum(count for _, count in dense.most_common(limit))
    return "; ".join(named) + (f"; others {rest:,}" if rest else "")
