"""`mgpp report`: one page about a run, or about several side by side."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from mgpp.cli.options import AsJson
from mgpp.report import read_runs, write_page
from mgpp.report.advice import advice_for, against_l2
from mgpp.report.answers import answers_for
from mgpp.report.run import Run, as_written

PAGE = "report.html"


def report(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Folders that mgpp prune wrote.", show_default=False)
    ],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="File to write; by default report.html in the run's folder, or here."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page: what was pruned, how much, where, what it cost, whether training settled, what to try next.

    The page needs no network. With --json its answers are printed, too.
    """
    read = read_runs(runs)
    place = Path(output).expanduser() if output else (read[0].folder / PAGE if len(read) == 1 else Path(PAGE))
    if place.is_dir():
        raise ValueError(f"{place} is a folder: name the file to write, such as {place / PAGE}")
    if place.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{place} is no name of a page: end it in .html")
    with as_written(runs):
        told = {"runs": [_as_record(run, read) for run in read], "against_l2": against_l2(read)} if as_json else {}
        page = str(write_page(read, place))
    typer.echo(json.dumps({"page": page, **told}) if as_json else page)


def _as_record(run: Run, runs: list[Run]) -> dict[str, Any]:
    return {
        "name": run.name,
        "label": run.label,
        "answers": {answer.key: answer.answer for answer in answers_for(run, runs)},
        "advice": [asdict(advice) for advice in advice_for(run, runs)],
    }
