"""The `mgpp` command and its subcommands."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from mgpp.cli.errors import INTERRUPTED, exit_code_of
from mgpp.cli.noise import quiet_libraries, quiet_warnings, show_any_name
from mgpp.cli.signals import sigterm_interrupts
from mgpp.version import mgpp_version

# What the help says of each. A command lies in the module of its name, which is loaded when the command is called:
# most need torch, which takes seconds.
COMMANDS = {
    "demo": "Compare dense fine-tuning, GMP and MGPP in minutes.",
    "prune": "Train MODEL on DATA and prune it on the way.",
    "finetune": "Train MODEL on DATA without pruning it further; with --hold-mask a sparse MODEL stays exactly as "
    "sparse.",
    "compare": "Compare methods on MODEL and DATA: every method at every sparsity with every seed, and dense "
    "baselines.",
    "sweep": "Try out settings on MODEL and DATA, and write the best as a preset: OUTPUT/best.toml.",
    "evaluate": "Score a fine-tuned MODEL, and count its zeros.",
    "export": "Write MODEL as a sparse file, an ordinary checkpoint, or for a dense engine (ONNX, OpenVINO).",
    "inspect": "Show which weights of MODEL are pruned.",
    "report": "Write one HTML page: what was pruned, how much, where, what it cost, whether training settled, what to "
    "try next.",
    "watch": "Follow a run while it goes on: sparsity, cut, loss and the time left.",
    "plot": "Draw a figure of the paper, or one of your runs, and write it as PDF, SVG or PNG.",
    "bench": "Measure what pruning costs here: medians with spread, all sides in one run.",
    "presets": "The paper's experiments as presets: list them, show one, copy one.",
}
_READERS = ("report", "watch", "plot")  # of records: they load no model


class _Quiet(TyperCommand):
    """Its libraries are told to be quiet when all words are understood, and not before: they must be loaded for it."""

    def invoke(self, ctx: Any) -> Any:
        if ctx.obj:
            quiet_libraries()
        return super().invoke(ctx)


class _Commands(TyperGroup):
    """Those of the help, until one is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else load(name), rest


def load(name: str) -> Any:
    """The command itself, with its options."""
    found = getattr(import_module(f"mgpp.cli.{name}"), name)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(cls=TyperCommand if name in _READERS else _Quiet)(found)
    return typer.main.get_command(alone)


app = typer.Typer(
    name="mgpp",
    cls=_Commands,
    help="Prune pretrained transformers while they fine-tune, with a mixture Gaussian prior.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for name, line in COMMANDS.items():
    app.command(name, help=line)(lambda: None)


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


def _call(words: list[str], *, quiet: bool) -> int:
    with sigterm_interrupts():
        return int(app(words, standalone_mode=False, obj=quiet) or 0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, 1 for a run that failed, 2 for bad input, 130 for an interrupted run."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words  # wherever it stands: it is typed after the command that just failed
    words = [word for word in words if word != "--debug"] or ["--help"]
    if debug:
        return _call(words, quiet=False)
    quiet_warnings()
    show_any_name()
    try:
        code = _call(words, quiet=True)
    except BaseException as error:
        return exit_code_of(error)
    return exit_code_of(KeyboardInterrupt()) if code == INTERRUPTED else code  # typer catches Ctrl-C, and says nothing
