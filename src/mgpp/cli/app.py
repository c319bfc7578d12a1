"""The `mgpp` command and its subcommands."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from mgpp.cli.bench import bench
from mgpp.cli.compare import compare
from mgpp.cli.demo import demo
from mgpp.cli.errors import INTERRUPTED, exit_code_of
from mgpp.cli.evaluate import evaluate
from mgpp.cli.export import export
from mgpp.cli.finetune import finetune
from mgpp.cli.inspect import inspect
from mgpp.cli.noise import quiet_libraries, show_any_name
from mgpp.cli.plot import plot
from mgpp.cli.presets import presets
from mgpp.cli.prune import prune
from mgpp.cli.report import report
from mgpp.cli.signals import sigterm_interrupts
from mgpp.cli.sweep import sweep
from mgpp.cli.watch import watch
from mgpp.run.result import mgpp_version

app = typer.Typer(
    name="mgpp",
    help="Prune pretrained transformers while they fine-tune, with a mixture Gaussian prior.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (demo, prune, finetune, compare, sweep, evaluate, export, inspect, report, watch, plot, bench):
    app.command()(command)
app.add_typer(presets, name="presets")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"mgpp {mgpp_version()}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    pass


def _call(words: list[str]) -> int:
    with sigterm_interrupts():
        return int(app(words, standalone_mode=False) or 0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, 1 for a run that failed, 2 for bad input, 130 for an interrupted run."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words  # wherever it stands: it is typed after the command that just failed
    words = [word for word in words if word != "--debug"] or ["--help"]
    if debug:
        return _call(words)
    quiet_libraries()
    show_any_name()
    try:
        code = _call(words)
    except BaseException as error:
        return exit_code_of(error)
    return exit_code_of(KeyboardInterrupt()) if code == INTERRUPTED else code  # typer catches Ctrl-C, and says nothing
