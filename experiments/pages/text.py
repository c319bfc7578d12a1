"""Numbers and tables as Markdown, and what they were made by."""

import statistics
from collections.abc import Iterable
from typing import Any

Rows = list[list[str]]


def table(head: list[str], rows: Rows) -> str:
    # |θ| in a name is no border.
    lines = [[cell.replace("|", r"\|") for cell in line] for line in [head, ["---"] * len(head), *rows]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def made_by(command: str, results: Iterable[dict[str, Any]]) -> str:
    """The command, and of all results the commits, the hardware and the versions, each said once."""
    told = list(results)
    if not told:
        return ""
    commits = dict.fromkeys((result.get("commit") or "unknown")[:7] for result in told)
    where = dict.fromkeys(result["hardware"]["gpu"] or result["hardware"]["processor"] for result in told)
    versions = dict.fromkeys(
        f"{name} {version}" for result in told for name, version in result["versions"].items() if name != "mgpp"
    )
    commit = "commit" if len(commits) == 1 else "commits"
    return f"`{command}`, {commit} {', '.join(commits)}: {', '.join([*where, *versions])}."


def points(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def spread(values: list[float], whole: int) -> str:
    """Mean ± standard deviation in points; how many values there are, where they are fewer than `whole`."""
    if not values:
        return ""
    deviation = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    fewer = f" ({len(values)})" if len(values) < whole else ""
    return f"{points(statistics.fmean(values))}{deviation}{fewer}"


def progress(done: int, planned: int) -> str:
    return "" if done == planned else f"Not all cells have been run yet: {done:,} of {planned:,}."
