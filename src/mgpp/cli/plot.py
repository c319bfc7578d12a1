"""`mgpp plot`: the paper's figures, and those of one's own runs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from mgpp.cli.options import AsJson
from mgpp.report.figures import FIGURES, write_figure
from mgpp.report.figures.canvas import KINDS

_LIST = "; ".join(f"{name}: {figure.shows} ({figure.made_from})" for name, figure in FIGURES.items())


def plot(
    figure: Annotated[str, typer.Argument(metavar="FIGURE", help=f"One of {', '.join(FIGURES)}.", show_default=False)],
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Folders that mgpp prune or mgpp compare wrote.", show_default=False),
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option("--output", "-o", help="File to write, .pdf, .svg or .png. May be repeated.", show_default=False),
    ] = None,
    slab_prob: Annotated[float | None, typer.Option("--slab-prob", help="λ, for penalties and landscapes.")] = None,
    spike_var: Annotated[float | None, typer.Option("--spike-var", help="σ0², for the same.")] = None,
    slab_var: Annotated[float | None, typer.Option("--slab-var", help="σ1², for the same.")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw a figure of the paper, or one of your runs, and write it as PDF, SVG or PNG."""
    if figure not in FIGURES:
        raise ValueError(f"figure={figure!r} is not one of {', '.join(FIGURES)}")
    files = [Path(name).expanduser() for name in output or [f"{figure}.pdf"]]
    for file in files:
        if file.suffix.removeprefix(".").lower() not in KINDS:
            raise ValueError(f"{file}: a figure is written as .pdf, .svg or .png")
    given = {"slab_prob": slab_prob, "spike_var": spike_var, "slab_var": slab_var}
    prior = {name: value for name, value in given.items() if value is not None}
    written = [str(path) for path in write_figure(figure, runs or [], files, prior=prior)]
    typer.echo(json.dumps({"figure": figure, "written": written}) if as_json else "\n".join(written))


plot.__doc__ = f"{plot.__doc__}\n\n    {_LIST}."
