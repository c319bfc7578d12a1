"""`mgpp sweep`: try out settings, several machines to a study if need be."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mgpp import sweep as sweeping
from mgpp.cli import asked, options
from mgpp.cli.errors import FAILED
from mgpp.presets import Settings, sparsity_of
from mgpp.sweep.results import as_table
from mgpp.sweep.study import PRUNERS, SAMPLERS, STORAGE_VARIABLE

_DEFAULTS = sweeping.Search()


@options.with_settings(but=("eval_data", "eval_split", "workers"))
def sweep(
    *,
    model: asked.Model = None,
    data: asked.Data = None,
    output: options.Output,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            "-g",
            metavar="KEY=V1,V2|LOW..HIGH",
            help="Values to try: learning_rate=1e-5,5e-5, method.spike_var=1e-10..1e-8. May be repeated. By default "
            "the paper's: learning rates, batch sizes and the prior's two variances.",
        ),
    ] = None,
    preset: asked.PresetName = None,
    other_model: asked.OtherModel = None,
    other_data: asked.OtherData = None,
    sparsity: asked.Sparsity = None,
    method: asked.MethodName = None,
    settings: asked.Set = None,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials",
            "-n",
            help="Of the whole study, whichever machine runs them. By default 20, or with the sampler grid all points.",
        ),
    ] = None,
    sampler: Annotated[str, typer.Option("--sampler", help=f"{', '.join(SAMPLERS)}.")] = _DEFAULTS.sampler,
    pruner: Annotated[
        str, typer.Option("--pruner", help=f"{', '.join(PRUNERS)}: when a trial that does badly is given up.")
    ] = _DEFAULTS.pruner,
    patience: Annotated[
        float, typer.Option("--patience", help="Share of its run before which no trial is given up.")
    ] = _DEFAULTS.patience,
    evaluations: Annotated[
        int, typer.Option("--evaluations", help="How often a trial is scored on its way, for the pruner.")
    ] = 10,
    storage: Annotated[
        str | None,
        typer.Option(
            "--storage",
            envvar=STORAGE_VARIABLE,  # a URL may hold a password, and every user can list the words of a command
            help="Where the study lies, for machines to share it: a journal file, a .db file (sqlite), or any URL that "
            "Optuna takes. By default a journal in the output folder.",
        ),
    ] = None,
    study: Annotated[str, typer.Option("--study", help="The study's name in its storage.")] = _DEFAULTS.study,
    processes: Annotated[int, typer.Option("--workers", help="Trials at the same time, on this machine.")] = 1,
    keep_models: Annotated[bool, typer.Option("--keep-models", help="Keep every finished trial's model.")] = False,
    as_json: options.AsJson = False,
    **given: Any,
) -> None:
    """Try out settings on MODEL and DATA, and write the best as a preset: OUTPUT/best.toml.

    Trials are scored on a share of the training rows (--holdout) that they do not learn from, never on the validation
    rows. The same command goes on where it was stopped; with the same --storage and --study, and an output folder of
    its own, it joins in from another machine.
    """
    read = asked.read_asked(
        preset=preset,
        places={"model": (model, other_model), "data": (data, other_data)},
        sparsity=sparsity,
        method=method,
        settings=settings or [],
        given=given,
    )
    console = Console(stderr=True, highlight=False)

    def tell(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    for note in read.settings.notes:
        tell(note)
    base, note = _in_shares(read)
    if note:
        tell(note)
    values = dict(read_grid(one) for one in grid or []) or sweeping.paper_grid((base.method or {}).get("method"))
    results = sweeping.sweep(
        sweeping.Sweep(output=output, settings=base, grid=values, evaluations=evaluations),
        sweeping.Search(trials=trials, sampler=sampler, pruner=pruner, patience=patience, storage=storage, study=study),
        workers=processes,
        keep_models=keep_models,
        examples=None if read.preset is None else read.preset.examples,
        tell=tell,
    )
    if as_json:
        typer.echo(json.dumps(results))
    else:
        _print(results)
    if results["best"] is None:
        raise typer.Exit(FAILED)


def read_grid(text: str) -> tuple[str, sweeping.Values]:
    """learning_rate=1e-5,5e-5 → a list of values; learning_rate=1e-5..1e-4 → all that lie between."""
    key, equals, values = (part.strip() for part in text.partition("="))
    told = f"--grid {text}"
    if not (key and equals and values):
        raise ValueError(f"{told}: write it as KEY=V1,V2 or KEY=LOW..HIGH, such as learning_rate=1e-5,5e-5")
    low, dots, high = values.partition("..")
    if not dots:
        return key, [asked.read_value(value.strip(), told=told) for value in values.split(",") if value.strip()]
    ends = [asked.read_value(end.strip(), told=told) for end in (low, high)]
    if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends):
        raise ValueError(f"{told}: a range has two numbers, LOW..HIGH")
    return key, sweeping.Range(*ends)


def _in_shares(read: asked.Asked) -> tuple[Settings, str]:
    """A preset's ramp is in steps of its own run; trials differ in their steps, so they share its shape."""
    settings = read.settings
    if read.preset is None or settings.method is None:
        return settings, ""
    written = read.preset.settings(sparsity_of(settings.method)).method or {}
    shares = {
        name: share
        for name, share in read.preset.in_shares(sparsity_of(settings.method)).items()
        if settings.method.get(name) == written[name]
    }
    told = ", ".join(f"{name} {share:.4g}" for name, share in shares.items())
    note = f"the ramp is taken in shares of the run, for trials differ in their steps: {told}" if shares else ""
    return settings.changed({}, settings=shares), note


def _print(results: dict[str, Any]) -> None:
    console = Console(highlight=False)
    heading, *lines = as_table(results)
    table = Table(*heading, title=f"study {results['study']}", title_justify="left")
    for line in lines:
        table.add_row(*line)
    console.print(table)
    console.print(f"{results['metric']}: {results['scored_on']}", markup=False, soft_wrap=True)
    if results["best_file"] is not None:
        told = f"the best is trial {results['best']['number']}: mgpp prune --preset {results['best_file']} --output OUT"
        console.print(told, markup=False, soft_wrap=True)
