"""`mgpp demo`: dense fine-tuning beside GMP and MGPP, on a real model and real reviews, in minutes."""

import json
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from mgpp.cli.options import AsJson
from mgpp.cli.progress import TrainingBar
from mgpp.disk import alone
from mgpp.run import RunInterrupted
from mgpp.run.demo import METHODS, prepare, run_one, sentence


def demo(
    output: Annotated[str, typer.Option("--output", "-o", help="Folder for the three models.")] = "runs/demo",
    as_json: AsJson = False,
) -> None:
    """Compare dense fine-tuning, GMP and MGPP in minutes.

    Fine-tunes the real MiniLM-L6 on real movie reviews three times, on the CPU, and says what came out.
    """
    began = time.perf_counter()
    console = Console(stderr=True, highlight=False)
    results: dict[str, dict[str, Any]] = {}
    with alone(Path(output), "demo"):
        settings = prepare(output)
        try:
            for name in METHODS:
                console.print(f"\n[bold]{name}[/bold]")
                with TrainingBar(console) as bar:
                    results[name] = run_one(name, settings, callbacks=[bar], tell=partial(_tell, console))
        except RunInterrupted:
            raise RunInterrupted(f"interrupted: the same command begins anew in {output}") from None
    said = sentence(results)
    if as_json:
        typer.echo(json.dumps({"results": results, "sentence": said, "seconds": round(time.perf_counter() - began, 1)}))
        return
    screen = Console(highlight=False)
    screen.print(_table(results))
    screen.print(said)
    screen.print(f"{time.perf_counter() - began:.0f} seconds in all; the models are in {output}.", markup=False)


def _tell(console: Console, line: str) -> None:
    console.print(line, markup=False, soft_wrap=True)


def _table(results: dict[str, dict[str, Any]]) -> Table:
    table = Table("", "accuracy", "sparsity", "zeros / prunable", "training", "file", "zlib", box=box.SIMPLE, padding=0)
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
    for name, result in results.items():
        table.add_row(
            name,
            f"{result['after']['accuracy']:.4f}",
            f"{result['sparsity']:.4f}",
            f"{result['zeros']:,} / {result['prunable']:,}",
            f"{result['seconds']:.0f} s",
            f"{result['file_bytes'] / 1e6:.1f} MB",
            f"{result['zlib_bytes'] / 1e6:.1f} MB",
        )
    return table
