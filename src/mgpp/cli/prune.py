"""`mgpp prune`: fine-tune a pretrained model and prune it on the way."""

import json
import re
import tomllib
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mgpp.cli import options
from mgpp.cli.options import DEFAULTS, AsJson
from mgpp.cli.progress import TrainingBar
from mgpp.methods import METHODS, Method, from_dict
from mgpp.run import RunConfig, run


def prune(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    sparsity: Annotated[
        float | None, typer.Option("--sparsity", "-s", help="Fraction of weights to remove, such as 0.9.")
    ] = None,
    method: Annotated[
        str, typer.Option("--method", "-m", help=f"{', '.join(METHODS)}; none fine-tunes without pruning.")
    ] = "mgpp",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A setting of the method: start=0.1, end=2000, spike_var=1e-9."
        ),
    ] = None,
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
    seed: Annotated[int, typer.Option("--seed")] = DEFAULTS["seed"],
    teacher: Annotated[
        str | None,
        typer.Option("--teacher", help="Folder or hub id of a fine-tuned model that this one learns from, too."),
    ] = None,
    distil_temperature: options.DistilTemperature = DEFAULTS["distil_temperature"],
    distil_weight: options.DistilWeight = DEFAULTS["distil_weight"],
    distil_hidden: options.DistilHidden = DEFAULTS["distil_hidden"],
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
    eval_steps: Annotated[int | None, typer.Option("--eval-steps", help="Score during training, too.")] = None,
    logging_steps: options.LoggingSteps = DEFAULTS["logging_steps"],
    save_steps: options.SaveSteps = DEFAULTS["save_steps"],
    workers: Annotated[int, typer.Option("--workers", help="Processes that load data.")] = 0,
    report_to: options.ReportTo = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    keep_checkpoints: Annotated[bool, typer.Option("--keep-checkpoints", help="Keep them after success.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fine-tune MODEL on DATA and prune it on the way.

    The folder then holds an ordinary checkpoint for from_pretrained, a model card, records.jsonl and result.json.
    """
    given = {name: value for name, value in locals().items() if name in DEFAULTS}
    given |= {
        "method": read_method(method, sparsity, settings or []),
        "include": tuple(include or ()),
        "exclude": tuple(exclude or ()),
        "report_to": tuple(report_to or ()),
    }
    console = Console(stderr=True, highlight=False)
    with TrainingBar(console) as bar:
        result = run(
            RunConfig(**given),
            resume=resume,
            overwrite=overwrite,
            keep_checkpoints=keep_checkpoints,
            callbacks=[bar],
            tell=lambda line: console.print(line, markup=False, soft_wrap=True),
        )
    if as_json:
        typer.echo(json.dumps(result))
    else:
        Console(highlight=False).print(summary(result))


def read_method(name: str, sparsity: float | None, settings: list[str]) -> Method | None:
    chosen = dict(read_setting(setting) for setting in settings)
    if name == "none":
        if sparsity is not None or chosen:
            raise ValueError("method none prunes nothing: leave --sparsity and --set out, or choose a method")
        return None
    if sparsity is None and "sparsity" not in chosen:
        raise ValueError("how many weights should go? give --sparsity, such as --sparsity 0.9 (or --method none)")
    return from_dict({"method": name, **({} if sparsity is None else {"sparsity": sparsity}), **chosen})


def read_setting(setting: str) -> tuple[str, Any]:
    """spike_var=1e-9 → ("spike_var", 1e-9). Values are TOML's; words (curvature) and epochs (2ep) need no quotes."""
    key, equals, value = (part.strip() for part in setting.partition("="))
    if not (key and equals and value):
        raise ValueError(f"--set {setting}: write it as KEY=VALUE, such as spike_var=1e-9")
    is_word = re.fullmatch(r"[A-Za-z_][\w-]*", value) and value.lower() not in ("true", "false", "inf", "nan")
    if is_word or re.fullmatch(r"[\d.]+\s*ep", value):
        return key, value
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        raise ValueError(f"--set {setting}: {value!r} is no number, word, true, false or epochs (2ep)") from None


def summary(result: dict[str, Any]) -> Table:
    method = result["method"]
    title = "dense" if method is None else f"{method['method'].upper()} at {result['target_sparsity']:g}"
    table = Table("", "before", "after", title=title, title_justify="left")
    for name in result["after"]:
        table.add_row(name, f"{result['before'][name]:.4f}", f"{result['after'][name]:.4f}")
    table.add_section()
    table.add_row("sparsity", "", f"{result['sparsity']:.6f}")
    table.add_row("zeros / prunable", "", f"{result['zeros']:,} / {result['prunable']:,}")
    table.add_row("steps", "", f"{result['steps']:,}")
    table.add_row("seconds", "", f"{result['seconds']:.1f}")
    table.add_row("folder", "", result["config"]["output"])
    return table
