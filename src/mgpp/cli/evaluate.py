"""`mgpp evaluate`: score a fine-tuned model, and count its zeros."""

import json
from dataclasses import fields
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mgpp import run
from mgpp.cli import options
from mgpp.tasks import Source

# Those that only training has a use for.
_TRAINING = ("train_split", "eval_data", "holdout", "unlabelled", "train_size")
SCORING = [field.name for field in fields(Source) if field.name in options.SETTINGS and field.name not in _TRAINING]


@options.with_settings("task", *SCORING, "eval_batch_size", "device", "precision", "include", "exclude")
def evaluate(
    model: Annotated[str, typer.Argument(help="Folder or hub id of a fine-tuned model.", show_default=False)],
    data: Annotated[
        str, typer.Argument(help="Hub name, a parquet, CSV or JSONL file, or a folder.", show_default=False)
    ],
    as_json: options.AsJson = False,
    **given: Any,
) -> None:
    """Score a fine-tuned MODEL, and count its zeros.

    Scores on the validation rows of DATA; on all of its rows, if it is one file. The task, the columns and the lengths
    are those of the run that made MODEL, where it lies in the run's folder, unless others are given.
    """
    from mgpp.cli.progress import TrainingBar
    from mgpp.run.remembered import describe, remembered

    known = remembered(model, given)
    scoring = read_scoring(data, {**known, **given})
    console = Console(stderr=True, highlight=False)
    if known:
        console.print(f"as its run was scored: {describe(known)}", markup=False, soft_wrap=True)
    with TrainingBar(console) as bar:
        result = run.evaluate(model, callbacks=[bar], **scoring)
    for note in result["notes"]:
        console.print(note, markup=False, soft_wrap=True)
    if as_json:
        typer.echo(json.dumps(result))
        return
    table = Table("", "", show_header=False)
    for name, value in result["metrics"].items():
        table.add_row(name, f"{value:.4f}")
    table.add_row("sparsity", f"{result['sparsity']:.6f}")
    table.add_row("zeros / prunable", f"{result['zeros']:,} / {result['prunable']:,}")
    Console(highlight=False).print(table)


def read_scoring(data: str, given: dict[str, Any]) -> dict[str, Any]:
    """What run.evaluate takes, from a command's settings."""
    settings = dict(given)
    source = Source(data=data, **{name: settings.pop(name) for name in SCORING if name in settings})
    if "eval_batch_size" in settings:
        settings["batch_size"] = settings.pop("eval_batch_size")
    return {"source": source, **settings}
