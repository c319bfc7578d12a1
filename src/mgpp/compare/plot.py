"""The metric against sparsity, a line for every method with its standard deviation over seeds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mgpp.compare.grid import DENSE


def plot(results: Mapping[str, Any], folder: Path) -> list[Path] | None:
    """Writes metric.png and metric.pdf; None where matplotlib, which the extra `plot` brings, is not installed."""
    try:
        from matplotlib.figure import Figure  # not pyplot: it would look for a screen
    except ImportError:
        return None
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for number, method in enumerate(results["methods"]):
        lines = [line for line in results["summary"] if line["method"] == method and line["mean"] is not None]
        lines.sort(key=lambda line: line["sparsity"])
        axes.errorbar(
            [line["sparsity"] for line in lines],
            [line["mean"] for line in lines],
            yerr=[line["std"] or 0.0 for line in lines],
            label=method,
            color=f"C{number % 10}",
            marker="osD^v<>pP*"[number % 10],  # for those who see no colours
            capsize=3,
        )
    dense = next(line for line in results["summary"] if line["method"] is None)
    if dense["mean"] is not None:
        axes.axhline(dense["mean"], color="grey", linestyle="--", label=DENSE)
    axes.set_xlabel("sparsity")
    axes.set_ylabel(results["metric"])
    axes.set_xticks(sorted(results["sparsities"]))
    axes.legend()
    axes.grid(alpha=0.3)
    written = [folder / f"metric.{kind}" for kind in ("png", "pdf")]
    for path in written:
        figure.savefig(path, dpi=150)
    return written
