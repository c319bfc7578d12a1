"""`mgpp compare`: methods × sparsities × seeds on one task and model."""

import json
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from mgpp import compare as comparing
from mgpp.cli import options
from mgpp.cli.asked import METHOD_NAMES, read_setting
from mgpp.cli.errors import FAILED
from mgpp.compare.grid import AUTO, settings_by_method
from mgpp.compare.results import as_table, failures

Value = TypeVar("Value")


@options.with_settings(but=("seed", "teacher", "eval_steps", "workers", "report_to"))
def compare(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    methods: Annotated[str, typer.Option("--methods", "-m", help=f"Some of {METHOD_NAMES}.", show_default=False)],
    sparsities: Annotated[str, typer.Option("--sparsities", "-s", help="Such as 0.8,0.9.")] = "0.9",
    seeds: Annotated[str, typer.Option("--seeds", help="Such as 0,1,2.")] = "0",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[METHOD.]KEY=VALUE",
            help="A setting of all methods (end=0.7), or of one (METHOD.end=0.7).",
        ),
    ] = None,
    teacher: Annotated[
        str, typer.Option("--teacher", help="none, auto (the dense run of the same seed), a folder or a hub id.")
    ] = "none",
    processes: Annotated[int, typer.Option("--workers", help="Runs at the same time, on this machine.")] = 1,
    as_json: options.AsJson = False,
    **given: Any,
) -> None:
    """Compare methods on MODEL and DATA: every method at every sparsity with every seed, and dense baselines.

    The same command goes on where it was stopped: finished runs are never repeated. The folder then holds
    results.json, results.md, metric.png and, in cells/, the folder of every run.
    """
    names = read_list("methods", methods, str)
    comparison = comparing.Comparison(
        output=output,
        methods=names,
        sparsities=read_list("sparsities", sparsities, float),
        seeds=read_list("seeds", seeds, int),
        settings=settings_by_method([read_setting(setting) for setting in settings or []], names),
        training={"model": model, "data": data, **given},
        teacher={"none": None, AUTO: AUTO}.get(teacher, teacher),
    )
    console = Console(stderr=True, highlight=False)
    results = comparing.compare(
        comparison, workers=processes, tell=lambda line: console.print(line, markup=False, soft_wrap=True)
    )
    if as_json:
        typer.echo(json.dumps(results))
    else:
        Console(highlight=False).print(_table(results))
    if failures(results):
        raise typer.Exit(FAILED)


def read_list(name: str, text: str, kind: Callable[[str], Value]) -> list[Value]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        return [kind(part) for part in parts]
    except ValueError:
        raise ValueError(f"{name}={text!r}: numbers, comma-separated, such as {_EXAMPLES[name]}") from None


_EXAMPLES: dict[str, Any] = {"sparsities": "0.8,0.9", "seeds": "0,1"}


def _table(results: dict[str, Any]) -> Table:
    heading, *lines = as_table(results)
    table = Table(*heading, title=f"{results['metric']} by sparsity", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for line in lines:
        table.add_row(*line)
    return table
