"""`mgpp evaluate`: score a fine-tuned model, and count its zeros."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from mgpp import run
from mgpp.cli.options import (
    AsJson,
    Device,
    EvalBatchSize,
    EvalSplit,
    Exclude,
    Include,
    Label,
    MaxLength,
    Text,
    TextPair,
)
from mgpp.cli.progress import TrainingBar
from mgpp.tasks import TextData


def evaluate(
    model: Annotated[str, typer.Argument(help="Folder or hub id of a fine-tuned model.", show_default=False)],
    data: Annotated[
        str, typer.Argument(help="Hub name, a parquet, CSV or JSONL file, or a folder.", show_default=False)
    ],
    text: Text = None,
    text_pair: TextPair = None,
    label: Label = "label",
    eval_split: EvalSplit = None,
    max_length: MaxLength = 128,
    eval_batch_size: EvalBatchSize = 64,
    device: Device = "auto",
    include: Include = None,
    exclude: Exclude = None,
    as_json: AsJson = False,
) -> None:
    """Score a fine-tuned MODEL, and count its zeros.

    Scores on the validation rows of DATA; on all of its rows, if it is one file.
    """
    source = TextData(
        data=data, text=text, text_pair=text_pair, label=label, eval_split=eval_split, max_length=max_length
    )
    console = Console(stderr=True, highlight=False)
    with TrainingBar(console) as bar:
        result = run.evaluate(
            model,
            source,
            batch_size=eval_batch_size,
            device=device,
            include=tuple(include or ()),
            exclude=tuple(exclude or ()),
            callbacks=[bar],
        )
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
