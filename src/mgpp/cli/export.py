"""`mgpp export`: a trained model into the form that it is used in."""

import json
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console
from rich.table import Table

from mgpp import run
from mgpp.artifact.precision import Values
from mgpp.cli import options
from mgpp.cli.evaluate import SCORING, read_scoring
from mgpp.run.export import ExportConfig, Format
from mgpp.run.export import export as export_model
from mgpp.run.remembered import remembered

_VALUES = ", ".join(get_args(Values))


@options.with_settings("task", *SCORING, "eval_batch_size", "device", "precision")
def export(
    model: Annotated[str, typer.Argument(help="Model folder or hub id; a sparse folder, too.", show_default=False)],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Folder to write; if not said, MODEL-FORMAT.", show_default=False),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format", "-f", help=f"{', '.join(get_args(Format))}. The last three are dense: they store the zeros."
        ),
    ] = "sparse",
    values: Annotated[str, typer.Option("--values", help=f"sparse: {_VALUES}; fp32 is exact, int8 by row.")] = "fp32",
    embeddings: Annotated[
        str | None, typer.Option("--embeddings", help="sparse: the same for embeddings; int8 only if asked for here.")
    ] = None,
    zstd: Annotated[
        bool | None,
        typer.Option("--zstd/--no-zstd", help="sparse: compress, without loss; if not said, where zstandard is there."),
    ] = None,
    shard_size: Annotated[str, typer.Option("--shard-size", help="sparse: the most that one file holds.")] = "5GB",
    data: Annotated[
        str | None, typer.Option("--data", help="Score the model before and after on the validation rows of this.")
    ] = None,
    push: Annotated[str | None, typer.Option("--push", help="Upload the folder to OWNER/NAME on the hub.")] = None,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository on the hub private.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in the folder.")] = False,
    as_json: options.AsJson = False,
    **scoring: Any,
) -> None:
    """Write MODEL as a sparse file, an ordinary checkpoint, or for a dense engine (ONNX, OpenVINO).

    What is written is read back and compared. The folder also gets the tokenizer and a model card.
    """
    trusted = bool(scoring.get("trust_remote_code"))
    if data is None:
        scoring.pop("trust_remote_code", None)
    if scoring and data is None:
        raise ValueError(f"--{next(iter(scoring)).replace('_', '-')} is for scoring: give --data, or leave it out")
    given: dict[str, Any] = {"format": form, "values": values, "embeddings": embeddings, "shard_size": shard_size}
    given |= {"push": push, "private": private, "overwrite": overwrite, "trust_remote_code": trusted}
    given["zstd"] = (form == "sparse" and find_spec("zstandard") is not None) if zstd is None else zstd
    config = ExportConfig(model=model, output=output or _folder_for(model, form), **given)
    console = Console(stderr=True, highlight=False)
    result = export_model(
        config,
        score=None if data is None else _scored(model, data, scoring),
        tell=lambda line: console.print(line, markup=False, soft_wrap=True),
    )
    if as_json:
        typer.echo(json.dumps(result))
    else:
        Console(highlight=False).print(summary(result))


def _scored(model: str, data: str, given: dict[str, Any]) -> Callable[[str], dict[str, Any]]:
    """What is written knows nothing of a run: the run of `model` says how both are scored."""
    return partial(run.evaluate, **read_scoring(data, {**remembered(model, given), **given}))


def _folder_for(model: str, form: str) -> str:
    """Beside a model's folder; for a hub id, here."""
    path = Path(model).expanduser()
    return f"{path if path.is_dir() else path.name}-{form}"


def summary(result: dict[str, Any]) -> Table:
    title = f"{result['format']}, a dense engine" if "max_difference" in result else result["format"]
    table = Table("", "", title=title, title_justify="left", show_header=False)
    table.add_row("size", f"{result['bytes'] / 1e6:,.2f} MB")
    table.add_row("dense", f"{result['dense_bytes'] / 1e6:,.2f} MB ({result['ratio']:.2f}×)")
    table.add_row("zeros / prunable", f"{result['zeros']:,} / {result['prunable']:,}")
    if "exact" in result:
        table.add_row("read back", "exact" if result["exact"] else f"within {result['max_error']:.3g}")
    if "max_difference" in result:
        table.add_row("from PyTorch", f"within {result['max_difference']:.3g}")
    for name, value in result.get("before", {}).items():
        table.add_row(name, f"{value:.4f} → {result['after'][name]:.4f}")
    table.add_row("folder", result["output"])
    if "url" in result:
        table.add_row("hub", result["url"])
    return table
