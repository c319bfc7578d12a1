"""`mgpp presets`: list them, show one in resolved numbers, copy one to own it."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mgpp.cli.options import AsJson
from mgpp.presets import describe, load_preset, names, read_text

Name = Annotated[str, typer.Argument(help="Such as bert-base/mnli, or a file: ./mine.toml.", show_default=False)]

presets = typer.Typer(
    help="The paper's experiments as presets: list them, show one, copy one.",
    add_completion=False,
    rich_markup_mode=None,
)


@presets.callback(invoke_without_command=True)
def list_presets(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the presets with their sources. SHOW prints one in resolved numbers, COPY gives you a file to own."""
    if ctx.invoked_subcommand is not None:
        return
    found = sorted((_line(name) for name in names()), key=lambda line: (_folder(line), line["source"]))
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table("preset", "source", "method", "sparsities")
    table.columns[0].no_wrap = True  # it is there to be copied
    for number, line in enumerate(found):
        if number and _folder(line) != _folder(found[number - 1]):
            table.add_section()
        sparsities = ", ".join(f"{sparsity:g}" for sparsity in line["sparsities"])
        table.add_row(line["name"], line["source"], line["method"] or "none", sparsities)
    Console(highlight=False).print(table)


def _line(name: str) -> dict[str, Any]:
    preset = load_preset(name)
    config = preset.config(next(iter(preset.sparsities), None))
    return {
        "name": name,
        "source": preset.source,
        "task": config.task,
        "model": preset.run.get("model"),
        "data": preset.run.get("data"),
        "method": None if preset.method is None else preset.method["method"],
        "sparsities": list(preset.sparsities),
    }


def _folder(line: dict[str, Any]) -> str:
    return line["name"].partition("/")[0]


@presets.command()
def show(
    name: Name,
    sparsity: Annotated[float | None, typer.Option("--sparsity", "-s", help="One of them, or any other.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print a preset in resolved numbers: every setting of its run, and its ramp in steps."""
    described = describe(load_preset(name), sparsity)
    if as_json:
        typer.echo(json.dumps(described))
        return
    console = Console(highlight=False)
    console.print(f"{described['name']}: {described['source']}", markup=False)
    for reason in (*described["why"], *(note for one in described["resolved"] for note in one["notes"])):
        console.print(f"- {reason}", markup=False, soft_wrap=True)
    console.print(_numbers(described))


def _numbers(described: dict[str, Any]) -> Table:
    """A line for every setting that the preset names; a column for every sparsity, where they differ."""
    columns = [_flat(one, described["named"]) for one in described["resolved"]]
    heads = [f"{one['sparsity']:g}" for one in described["resolved"]] if len(columns) > 1 else []
    table = Table("", "all" if heads else "", *heads)
    for key, *values in zip(columns[0], *(column.values() for column in columns), strict=True):
        table.add_row(key, *([str(values[0])] if len(set(values)) == 1 else ["", *map(str, values)]))
    return table


def _flat(one: dict[str, Any], named: list[str]) -> dict[str, Any]:
    config, method = one["config"], one["config"]["method"] or {}
    length, schedule = one["length"] or {}, one["schedule"] or {}
    numbers = {"examples": "train_size", "steps of an epoch": "steps_per_epoch", "steps": "total_steps"}
    times = {"start": "start", "end": "end", "pruned at": "at"}
    return {
        **{key: config[key] for key in config if key in named},
        **{f"method.{key}": method[key] for key in method if f"method.{key}" in named},
        **{told: length[key] for told, key in numbers.items() if key in length},
        **{f"{told}, in steps": schedule[key] for told, key in times.items() if key in schedule},
    }


@presets.command()
def copy(
    name: Annotated[str, typer.Argument(help="Such as bert-base/mnli.", show_default=False)],
    file: Annotated[
        Path | None, typer.Argument(help="Where to write it; by default ./MODEL-ROW.toml.", show_default=False)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Copy a preset to a file of your own, which `mgpp prune --preset ./FILE.toml` runs."""
    text = read_text(name)
    path = Path(f"{name.replace('/', '-')}.toml") if file is None else file.expanduser()
    if path.is_dir():
        path = path / f"{name.replace('/', '-')}.toml"
    if path.suffix != ".toml":
        raise ValueError(f"{path}: a preset's file ends in .toml, by which --preset knows it")
    if path.exists() and not overwrite:
        raise ValueError(f"{path} is there already: choose another file, or --overwrite it")
    path.write_text(text, encoding="utf-8")
    typer.echo(f"{path}: mgpp prune --preset {path if path.is_absolute() else f'./{path}'} runs it")
