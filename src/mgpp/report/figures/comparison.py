"""The metric against sparsity, from what `mgpp compare` wrote."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgpp.report.figures.canvas import COLORS, MARKERS, axes_or_new, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESULTS_FILE = "results.json"


@styled
def metric(results: Mapping[str, Any] | str | Path, axes: "Axes | None" = None) -> "Axes":
    """A line for every method with its standard deviation over seeds, and dashed, the dense runs' mean."""
    results = results if isinstance(results, Mapping) else read_results(results)
    panel = axes_or_new(axes, size=(5.5, 3.6))
    for number, method in enumerate(results["methods"]):
        lines = [line for line in results["summary"] if line["method"] == method and line["mean"] is not None]
        if not lines:
            continue
        lines.sort(key=lambda line: line["sparsity"])
        panel.errorbar(
            [line["sparsity"] for line in lines],
            [line["mean"] for line in lines],
            yerr=[line["std"] or 0.0 for line in lines],
            label=method,
            color=COLORS[number % len(COLORS)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=4,
            capsize=3,
        )
    _draw_dense(panel, results)
    panel.set(xlabel="sparsity", ylabel=results["metric"])
    panel.set_xticks(sorted(results["sparsities"]))
    panel.legend()
    return panel


def _draw_dense(panel: "Axes", results: Mapping[str, Any]) -> None:
    dense = next((line for line in results["summary"] if line["method"] is None), None)
    if dense is None or dense["mean"] is None:
        return
    panel.axhline(dense["mean"], color="grey", linestyle="--", label="dense")
    if dense["std"]:
        panel.axhspan(dense["mean"] - dense["std"], dense["mean"] + dense["std"], color="grey", alpha=0.12, linewidth=0)


def read_results(folder: str | Path) -> dict[str, Any]:
    path = Path(folder).expanduser()
    path = path / RESULTS_FILE if path.is_dir() else path
    if not path.is_file():
        raise ValueError(f"no {RESULTS_FILE} in {folder}: name the folder that mgpp compare wrote")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}): mend it, or compare anew") from None
