"""`mgpp prune`: fine-tune a pretrained model and prune it on the way."""

import json
import re
import tomllib
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mgpp.cli import options
from mgpp.cli.progress import TrainingBar
from mgpp.methods import METHODS, Method, from_dict, needs_sparsity
from mgpp.run import RunConfig, run


@options.with_settings()
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
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    keep_checkpoints: options.KeepCheckpoints = False,
    as_json: options.AsJson = False,
    **given: Any,
) -> None:
    """Train MODEL on DATA and prune it on the way.

    The folder then holds an ordinary checkpoint for from_pretrained, a model card, records.jsonl and result.json.
    """
    chosen = read_method(method, sparsity, settings or [])
    config = RunConfig(model=model, data=data, output=output, method=chosen, **given)
    train(config, resume=resume, overwrite=overwrite, keep_checkpoints=keep_checkpoints, as_json=as_json)


def train(config: RunConfig, *, as_json: bool, **how: bool) -> None:
    """Run it under a bar, and print what came out."""
    console = Console(stderr=True, highlight=False)
    with TrainingBar(console) as bar:
        result = run(
            config, callbacks=[bar], tell=lambda line: console.print(line, markup=False, soft_wrap=True), **how
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
    without = {"sparsity", "structure"} & chosen.keys() or (name in METHODS and not needs_sparsity(name))
    if sparsity is None and not without:
        raise ValueError("how many weights should go? give --sparsity, such as --sparsity 0.9 (or --method none)")
    return from_dict({"method": name, **({} if sparsity is None else {"sparsity": sparsity}), **chosen})


def read_setting(setting: str) -> tuple[str, Any]:
    """spike_var=1e-9 → ("spike_var", 1e-9). Values are TOML's; words (curvature), epochs (2ep) and structures (2:4)
    need no quotes."""
    key, equals, value = (part.strip() for part in setting.partition("="))
    if not (key and equals and value):
        raise ValueError(f"--set {setting}: write it as KEY=VALUE, such as spike_var=1e-9")
    is_word = re.fullmatch(r"[A-Za-z_][\w-]*", value) and value.lower() not in ("true", "false", "inf", "nan")
    is_structure = re.fullmatch(r"\d+[x:]\d+", value)
    if is_word or is_structure or re.fullmatch(r"[\d.]+\s*ep", value):
        return key, value
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        raise ValueError(f"--set {setting}: {value!r} is no number, word, true, false or epochs (2ep)") from None


def summary(result: dict[str, Any]) -> Table:
    method = result["method"]
    title = "dense" if method is None else method["method"].upper()
    title += f" at {result['target_sparsity']:g}" if result["target_sparsity"] else ""
    table = Table("", "before", "after", title=title, title_justify="left")
    for name in result["after"]:
        table.add_row(name, f"{result['before'][name]:.4f}", f"{result['after'][name]:.4f}")
    table.add_section()
    table.add_row("sparsity", f"{result['zeros_before'] / (result['prunable'] or 1):.6f}", f"{result['sparsity']:.6f}")
    table.add_row("zeros / prunable", f"{result['zeros_before']:,}", f"{result['zeros']:,} / {result['prunable']:,}")
    table.add_row("steps", "", f"{result['steps']:,}")
    table.add_row("seconds", "", f"{result['seconds']:.1f}")
    table.add_row("waiting for data", "", f"{result['loader_share']:.1%}")
    table.add_row("folder", "", result["config"]["output"])
    return table
