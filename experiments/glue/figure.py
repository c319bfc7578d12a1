"""The paper's Fig. 2 from real runs: what is left of the weights, and the cut during training.

    python experiments/glue/figure.py [--to docs/figures] [--runs FOLDER]

Of every experiments/glue/results/MODEL-figure.jsonl (grid.py figure) a figure fig2-MODEL.svg is drawn. The records of
each run are written to FOLDER/MODEL/METHOD/records.jsonl, where `mgpp plot` reads them, too.
"""

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mgpp import records
from mgpp.methods import from_dict, to_dict
from mgpp.methods.times import Run as Length
from mgpp.report import Run, read_run
from mgpp.report.figures import cuts, remaining
from mgpp.report.figures.canvas import panels_or_new, save, styled

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parent.parent.parent / "docs" / "figures"
ENDING = "-figure.jsonl"
Line = dict[str, Any]


def write_run(line: Line, folder: Path) -> Run:
    """The records of one cell in a folder of its own, begun as a run's are."""
    cell = line["cell"]
    path = folder / cell["name"] / "records.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    method = from_dict(cell["method"])
    schedule = asdict(method.schedule(Length(total_steps=line["steps"])))
    start = {"event": "start", "step": 0, "method": to_dict(method), "schedule": schedule}
    for record in (start, *line["records"]):
        records.append(path, record)
    return read_run(path.parent, name=cell["name"])


@styled
def draw(runs: list[Run], path: Path) -> Path:
    """Those that cut by size come first, so that a run has the same colour in both panels: another score's cut is no
    size of a weight."""
    by_size = [run for run in runs if (run.method or {}).get("score") == "magnitude"]
    ordered = [*by_size, *[run for run in runs if run not in by_size]]
    left, right = panels_or_new(None, 2, size=(8, 3))
    for panel, fill, drawn in ((left, remaining, ordered), (right, cuts, by_size)):
        fill(drawn, panel)
        handles, _ = panel.get_legend_handles_labels()
        panel.legend(handles, [run.name for run in drawn])
    return save(left.get_figure(), path)


def draw_all(to: Path, runs: Path, results: Path = RESULTS) -> list[Path]:
    drawn = []
    for path in sorted(results.glob(f"*{ENDING}")):
        model = path.name.removesuffix(ENDING)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        newest = {line["cell"]["name"]: line for line in lines if "error" not in line}
        written = [write_run(line, runs / model) for line in newest.values()]
        drawn.append(draw(written, to / f"fig2-{model}.svg"))
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=FIGURES)
    parser.add_argument("--runs", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing:
        for path in draw_all(args.to, args.runs or Path(passing)):
            print(path)


if __name__ == "__main__":
    main()
