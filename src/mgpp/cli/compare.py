"""`mgpp compare`: methods × sparsities × seeds on one task and model."""

import json
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from mgpp import compare as comparing
from mgpp.cli import options
from mgpp.cli.errors import FAILED
from mgpp.cli.options import DEFAULTS
from mgpp.cli.prune import read_setting
from mgpp.compare.grid import AUTO, settings_by_method
from mgpp.compare.results import as_table, failures
from mgpp.methods import METHODS

Value = TypeVar("Value")


def compare(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    methods: Annotated[str, typer.Option("--methods", "-m", help=f"Some of {', '.join(METHODS)}.", show_default=False)],
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
    distil_temperature: options.DistilTemperature = DEFAULTS["distil_temperature"],
    distil_weight: options.DistilWeight = DEFAULTS["distil_weight"],
    distil_hidden: options.DistilHidden = DEFAULTS["distil_hidden"],
    processes: Annotated[int, typer.Option("--workers", help="Runs at the same time, on this machine.")] = 1,
    epochs: options.Epochs = DEFAULTS["epochs"],
    max_steps: options.MaxSteps = None,
    batch_size: options.BatchSize = DEFAULTS["batch_size"],
    accumulate: options.Accumulate = DEFAULTS["accumulate"],
    learning_rate: options.LearningRate = DEFAULTS["learning_rate"],
    lr_end: options.LrEnd = DEFAULTS["lr_end"],
    warm_up: options.WarmUp = DEFAULTS["warm_up"],
    max_grad_norm: options.MaxGradNorm = DEFAULTS["max_grad_norm"],
    weight_decay: options.WeightDecay = DEFAULTS["weight_decay"],
    optimizer: options.Optimizer = DEFAULTS["optimizer"],
    precision: options.Precision = DEFAULTS["precision"],
    device: options.Device = DEFAULTS["device"],
    max_length: options.MaxLength = DEFAULTS["max_length"],
    group_by_length: options.GroupByLength = False,
    text: options.Text = None,
    text_pair: options.TextPair = None,
    label: options.Label = DEFAULTS["label"],
    eval_data: options.EvalData = None,
    eval_split: options.EvalSplit = None,
    holdout: options.Holdout = DEFAULTS["holdout"],
    new_head: options.NewHead = False,
    include: options.Include = None,
    exclude: options.Exclude = None,
    eval_batch_size: options.EvalBatchSize = DEFAULTS["eval_batch_size"],
    logging_steps: options.LoggingSteps = DEFAULTS["logging_steps"],
    save_steps: options.SaveSteps = DEFAULTS["save_steps"],
    as_json: options.AsJson = False,
) -> None:
    """Compare methods on MODEL and DATA: every method at every sparsity with every seed, and dense baselines.

    The same command goes on where it was stopped: finished runs are never repeated. The folder then holds
    results.json, results.md, metric.png and, in cells/, the folder of every run.
    """
    training = {name: value for name, value in locals().items() if name in DEFAULTS}
    training |= {"include": tuple(include or ()), "exclude": tuple(exclude or ())}
    for own in ("output", "teacher"):
        del training[own]
    names = read_list("methods", methods, str)
    comparison = comparing.Comparison(
        output=output,
        methods=names,
        sparsities=read_list("sparsities", sparsities, float),
        seeds=read_list("seeds", seeds, int),
        settings=settings_by_method([read_setting(setting) for setting in settings or []], names),
        training=training,
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
