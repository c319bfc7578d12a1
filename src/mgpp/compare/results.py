"""What came out: means and standard deviations over seeds, as JSON with everything and as a table to read."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mgpp.compare.grid import AUTO, DENSE, Cell, Comparison
from mgpp.disk import write_whole
from mgpp.run.folder import write_json

RESULTS_FILE, TABLE_FILE = "results.json", "results.md"


def collect(comparison: Comparison, cells: Sequence[Cell], failed: Mapping[str, str]) -> dict[str, Any]:
    """All cells with their results as they were measured, and their summary."""
    rows = [_row(cell, failed.get(cell.name)) for cell in cells]
    finished = [row["result"] for row in rows if row["result"] is not None]
    metric = finished[0]["metric"] if finished else None
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": comparison.training["model"],
        "data": comparison.training["data"],
        "metric": metric,
        "methods": list(comparison.methods),
        "sparsities": list(comparison.sparsities),
        "seeds": list(comparison.seeds),
        "teacher": comparison.teacher,
        "summary": _summary(comparison, rows, metric),
        "cells": rows,
    }


def _row(cell: Cell, reason: str | None) -> dict[str, Any]:
    result = cell.result
    status = "finished" if result is not None else "failed" if reason is not None else "waiting"
    place = {"name": cell.name, "method": cell.method, "sparsity": cell.sparsity, "seed": cell.seed}
    return {**place, "status": status, "reason": reason, "result": result}


def _summary(comparison: Comparison, rows: Sequence[dict[str, Any]], metric: str | None) -> list[dict[str, Any]]:
    asked: list[tuple[str | None, float]] = [(None, 0.0)]
    asked += [(method, sparsity) for method in comparison.methods for sparsity in comparison.sparsities]
    lines = []
    for method, sparsity in asked:
        group = [row for row in rows if (row["method"], row["sparsity"]) == (method, sparsity)]
        results = [row["result"] for row in group if row["result"] is not None]
        scores = [result["after"][metric] for result in results]
        lines.append(
            {
                "method": method,
                "sparsity": sparsity,
                "mean": _mean(scores),
                # Of a sample: with one seed there is no telling.
                "std": statistics.stdev(scores) if len(scores) > 1 else None,
                "runs": len(scores),
                "of": len(group),
                "failed": sum(row["status"] == "failed" for row in group),
                "counted_sparsity": _mean([result["sparsity"] for result in results]),
                "seconds": _mean([result["seconds"] for result in results]),
            }
        )
    return lines


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def as_table(results: Mapping[str, Any]) -> list[list[str]]:
    """A line for every method and a column for every sparsity; the dense baseline stands first in both."""
    lines = {(line["method"], line["sparsity"]): line for line in results["summary"]}
    sparsities = results["sparsities"]
    heading = [results["metric"] or "", DENSE, *(f"{sparsity:g}" for sparsity in sparsities)]
    dense = [DENSE, describe(lines[None, 0.0]), *("" for _ in sparsities)]
    pruned = [[name, "", *(describe(lines[name, sparsity]) for sparsity in sparsities)] for name in results["methods"]]
    return [heading, dense, *pruned]


def describe(line: Mapping[str, Any]) -> str:
    """0.8123 ± 0.0045; how many runs it stands for is said where it is not all of them."""
    if line["mean"] is None:
        return "failed" if line["failed"] else "–"
    spread = "" if line["std"] is None else f" ± {line['std']:.4f}"
    missing = "" if line["runs"] == line["of"] else f" ({line['runs']} of {line['of']})"
    return f"{line['mean']:.4f}{spread}{missing}"


def failures(results: Mapping[str, Any]) -> list[str]:
    return [f"{row['name']}: {row['reason']}" for row in results["cells"] if row["status"] == "failed"]


def as_markdown(results: Mapping[str, Any]) -> str:
    heading, *lines = as_table(results)
    table = [f"| {' | '.join(line)} |" for line in (heading, ["---"] * len(heading), *lines)]
    parts = [f"# {Path(results['model']).name} on {Path(results['data']).name}", how(results), "\n".join(table)]
    if failures(results):
        parts.append("Failed:\n\n" + "\n".join(f"- {line}" for line in failures(results)))
    return "\n\n".join(parts) + "\n"


def _results(results: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Of the cells that are finished, the dense ones first."""
    return (row["result"] for row in results["cells"] if row["result"] is not None)


def how(results: Mapping[str, Any]) -> str:
    seeds = results["seeds"]
    spread = "mean ± standard deviation" if len(seeds) > 1 else "one run each"
    told = f"`{results['model']}` fine-tuned on `{results['data']}` and pruned on the way: {results['metric']} by "
    told += f"sparsity, {spread}, seeds {', '.join(map(str, seeds))}."
    if results["teacher"] is not None:
        whose = "the dense run of the same seed" if results["teacher"] == AUTO else f"`{results['teacher']}`"
        told += f" Taught by {whose}."
    done = next(_results(results), None)
    if done is None:
        return told
    versions = ", ".join(f"{name} {number}" for name, number in done["versions"].items())
    machine = done["hardware"]["gpu"] or done["hardware"]["processor"]
    lengths = {f"{each['steps']:,} steps over {each['train_rows']:,} rows": each for each in _results(results)}
    more = {each["config"].get("unlabelled") for each in lengths.values()} - {None}
    told += f" {' dense, '.join(lengths)}{f' pruned, with `{more.pop()}`, which has no labels' if more else ''},"
    told += f" {done['eval_rows']:,} rows scored."
    return f"{told} {machine}, {versions}."


def write_results(results: dict[str, Any], folder: Path) -> None:
    write_json(folder / RESULTS_FILE, results)
    write_whole(folder / TABLE_FILE, as_markdown(results))
