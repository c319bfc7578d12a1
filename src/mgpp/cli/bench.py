"""`mgpp bench`: what pruning costs on this machine, and what its zeros bring."""

import json
import shlex
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from torch import nn

from mgpp.artifact.source import load_any
from mgpp.bench import (
    SHAPES,
    measure_decoder,
    measure_inference,
    measure_overhead,
    measure_selection,
    measure_semi_structured,
)
from mgpp.bench.results import append, earlier_in
from mgpp.bench.timing import Tell, silent
from mgpp.run.result import provenance

WHAT = ("overhead", "selection", "decoder", "inference", "semi-structured")
# What is measured, not what came out: where all rows share it the heading says it.
GIVEN = ("shape", "weights", "tokens", "batch", "length", "dtype", "parameters", "prunable")
HIDDEN = ("low_ms", "high_ms", "runs", "detail", "missing")
NOTES = {"overhead": "each ratio is to the plain steps of its own rounds; only the first are shown"}


def bench(
    what: Annotated[
        str,
        typer.Argument(
            help="overhead (a training step), selection (one event), decoder (7B), inference (on a CPU) or "
            "semi-structured (2:4 inference)."
        ),
    ] = "overhead",
    inference: Annotated[bool, typer.Option("--inference", help="The same as the argument inference.")] = False,
    shape: Annotated[str, typer.Option(help=f"overhead and inference: {', '.join(SHAPES)}.")] = "minilm",
    model: Annotated[
        str | None, typer.Option(help="inference: a pruned model's folder or hub id, instead of a shape.")
    ] = None,
    sparsities: Annotated[str, typer.Option(help="inference: comma-separated.")] = "0.8,0.9,0.95",
    batches: Annotated[str, typer.Option(help="inference: batch sizes, comma-separated.")] = "1,32",
    length: Annotated[int, typer.Option(help="inference: tokens in a row.")] = 128,
    keep_memory: Annotated[
        bool, typer.Option("--keep-memory", help="inference: the process keeps memory that it frees, in all engines.")
    ] = False,
    sizes: Annotated[str, typer.Option(help="selection: numbers of weights, comma-separated.")] = "1e6,1e7",
    dtype: Annotated[str, typer.Option(help="selection and decoder: float32 or bfloat16.")] = "float32",
    rounds: Annotated[int, typer.Option(help="How often each side is measured.")] = 15,
    only: Annotated[
        list[str] | None, typer.Option(help="overhead and inference: this side alone (and plain); may be repeated.")
    ] = None,
    naive: Annotated[bool, typer.Option(help="overhead: also the eager ops and kthvalue of released code.")] = True,
    graphs: Annotated[
        bool, typer.Option("--graphs", help="overhead: forward and backward from a CUDA graph: no slow host.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda; by default the GPU where there is one.")] = "",
    output: Annotated[Path | None, typer.Option(help="Append the result to this JSON file, with provenance.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure what pruning costs here: medians with spread, all sides in one run."""
    import torch

    what = "inference" if inference else what
    if what not in WHAT:
        raise ValueError(f"{what!r} is not one of {', '.join(WHAT)}")
    if shape not in SHAPES:
        raise ValueError(f"shape={shape!r} is not one of {', '.join(SHAPES)}")
    if dtype not in ("float32", "bfloat16"):
        raise ValueError(f"dtype={dtype!r} is not float32 or bfloat16")
    for option, value in {"rounds": rounds, "length": length}.items():
        if value < 1:
            raise ValueError(f"{option}={value}: at least 1")
    if what == "inference" and device not in ("", "cpu"):
        raise ValueError(f"device={device!r}: sparse inference is for the cpu")
    if device.partition(":")[0] not in ("", "cpu", "cuda"):
        raise ValueError(f"device={device!r}: it must be cpu or cuda")
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if place.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda' and no GPU is to be seen: use --device cpu")
    if output is not None:
        earlier_in(output)  # what cannot be added to is refused before anything is measured
    tell = silent if as_json else _teller()
    if what == "overhead":
        rows = measure_overhead(shape, device=place, rounds=rounds, naive=naive, only=only, graphs=graphs, tell=tell)
    elif what == "selection":
        numbers = _sizes(sizes, "sizes", "numbers of weights, comma-separated, such as 1e6,1e7")
        rows = measure_selection(sizes=numbers, device=place, dtype=getattr(torch, dtype), rounds=rounds, tell=tell)
    elif what == "inference":
        rows = measure_inference(
            model or shape,
            sparsities=_sparsities(sparsities),
            batches=_sizes(batches, "batches", "batch sizes, comma-separated, such as 1,32"),
            length=length,
            rounds=rounds,
            only=only,
            kept=keep_memory,
            load=None if model is None else partial(_load, model),
            tell=tell,
        )
    elif what == "semi-structured":
        rows = measure_semi_structured(device=place, rounds=rounds, tell=tell)
    else:
        rows = measure_decoder(device=place, dtype=getattr(torch, dtype), rounds=rounds, tell=tell)
    result = {
        "what": what,
        "command": shlex.join(["mgpp", *sys.argv[1:]]),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **provenance(),
        "rows": rows,
    }
    if output is not None:
        append(output, result)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        typer.echo(heading(result))
        print_table(as_table(rows), Console(highlight=False))
        if what in NOTES:
            typer.echo(NOTES[what])
        for row in rows:
            if "missing" in row:
                typer.echo(f"left out: {row['name']}, {row['missing']}")


def _teller() -> Tell:
    console = Console(stderr=True, highlight=False)
    return lambda line: console.print(line, markup=False, soft_wrap=True)


def _load(model: str) -> nn.Module:
    """Without its head: what comes out of every engine are hidden states."""
    return load_any(model).base_model


def _sizes(text: str, option: str, such_as: str) -> list[int]:
    try:
        sizes = [int(float(part)) for part in text.split(",")]
    except (ValueError, OverflowError):  # inf is a float, and no int
        raise ValueError(f"{option}={text!r}: {such_as}") from None
    if min(sizes) < 1:
        raise ValueError(f"{option}={text!r}: each at least 1")
    return sizes


def _sparsities(text: str) -> list[float]:
    try:
        sparsities = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"sparsities={text!r}: comma-separated, such as 0.8,0.9") from None
    if not all(0.3 <= sparsity < 1 for sparsity in sparsities):
        raise ValueError(f"sparsities={text!r}: each from 0.3 to below 1, or no layer is pruned enough to be sparse")
    return sparsities


def heading(result: dict[str, Any]) -> str:
    facts = ", ".join(f"{key} {value}" for key, value in _shared(result["rows"]).items())
    return f"mgpp bench {result['what']}" + (f": {facts}" if facts else "")


def _shared(rows: list[dict[str, Any]]) -> dict[str, str]:
    found = {key: {_cell(key, row) for row in rows} - {""} for key in GIVEN}
    return {key: cells.pop() for key, cells in found.items() if len(cells) == 1}


def as_table(rows: list[dict[str, Any]]) -> Table:
    """Without what the heading says. A name may be broken between its words, a number never."""
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False, collapse_padding=True)
    left_out = {*HIDDEN, *_shared(rows)}
    keys = [key for key in rows[0] if key not in left_out and any(row.get(key) is not None for row in rows)]
    for key in keys:
        if key == "name":
            table.add_column(key)
        else:
            widest = max(len(_cell(key, row)) for row in rows)
            words = key.replace("bytes", "MB").replace("_", "\n")
            table.add_column(words, justify="right", no_wrap=True, min_width=widest)
    for row in rows:
        table.add_row(*(_cell(key, row) for key in keys))
    return table


def print_table(table: Table, console: Console) -> None:
    """Wider than the terminal, rather than with a number cut."""
    console.width = max(console.width, console.measure(table, options=console.options.update(width=1000)).minimum)
    console.print(table)


def _cell(key: str, row: dict[str, Any]) -> str:
    value = row.get(key)
    if value is None:
        return ""
    if key == "median_ms":
        return f"{_short(value)} ({_short(row['low_ms'])}–{_short(row['high_ms'])})"
    if key.endswith("_bytes"):
        return _short(value / 1e6)
    if key.endswith("ratio") and value < 10:
        return f"{value:.3f}"  # what pruning adds is a few hundredths
    if key == "sparsity":
        return f"{value:.4g}"
    if isinstance(value, float):
        return _short(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _short(value: float) -> str:
    """Three digits; more only before the point."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
