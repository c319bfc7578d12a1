"""The run that `mgpp prune` and `mgpp finetune` ask for."""

import json
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from mgpp.cli import asked
from mgpp.cli.progress import TrainingBar
from mgpp.methods import title_of
from mgpp.methods.ramp import DoesNotFit
from mgpp.notebook import score_rows
from mgpp.run import run


def train(read: asked.Asked, *, output: str, as_json: bool, **how: bool) -> None:
    """Run it under a bar, and print what came out."""
    config = read.settings.config(output=output)
    console = Console(stderr=True, highlight=False)

    def tell(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    for note in read.settings.notes:
        tell(note)
    with TrainingBar(console) as bar:
        try:
            result = run(config, callbacks=[bar], tell=tell, **how)
        except DoesNotFit as error:
            raise _with_cure(error, read) from error
    if as_json:
        typer.echo(json.dumps(result))
    else:
        Console(highlight=False).print(summary(result))


def _with_cure(error: DoesNotFit, read: asked.Asked) -> ValueError:
    """A preset's ramp is written in the steps of its own data: say how to keep its shape on other rows."""
    if read.preset is None or read.preset.examples is None or read.settings.method is None:
        return error
    shares = read.preset.in_shares(read.settings.method.get("sparsity"))
    told = " ".join(f"--set {name}={round(share, 4)}" for name, share in shares.items())  # 1.0, for 1 is a step
    written = f"preset {read.preset.name} was written for {read.preset.examples:,} examples"
    return ValueError(f"{error}; {written}: {told} keeps its ramp's shape" if shares else str(error))


def summary(result: dict[str, Any]) -> Table:
    method = result["method"]
    title = "dense" if method is None else title_of(method)
    title += f" at {result['target_sparsity']:g}" if result["target_sparsity"] else ""
    table = Table("", "before", "after", title=title, title_justify="left")
    for row in score_rows(result):
        table.add_row(*row)
    table.add_section()
    table.add_row("sparsity", f"{result['zeros_before'] / (result['prunable'] or 1):.6f}", f"{result['sparsity']:.6f}")
    table.add_row("zeros / prunable", f"{result['zeros_before']:,}", f"{result['zeros']:,} / {result['prunable']:,}")
    table.add_row("steps", "", f"{result['steps']:,}")
    table.add_row("seconds", "", f"{result['seconds']:.1f}")
    table.add_row("waiting for data", "", f"{result['loader_share']:.1%}")
    table.add_row("folder", "", result["config"]["output"])
    return table
