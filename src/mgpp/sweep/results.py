"""What a sweep found: every trial as JSON, a table to read, and the best one's settings as a preset."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mgpp.disk import write_whole
from mgpp.presets.write import to_toml
from mgpp.run.folder import write_json
from mgpp.sweep.grid import Sweep

RESULTS_FILE, TABLE_FILE, BEST_FILE = "results.json", "results.md", "best.toml"
# In plain words; Optuna's are for its own pruner, and in this package pruned is what weights are.
_STATES = {"COMPLETE": "finished", "PRUNED": "given up", "FAIL": "failed", "RUNNING": "running", "WAITING": "waiting"}


def collect(
    asked: Sweep,
    trials: Sequence[Any],
    *,
    study: str,
    storage: str,
    metric: str,
    lower_is_better: bool,
    scored_on: str,
) -> dict[str, Any]:
    rows = [_row(trial) for trial in trials]
    finished = [row for row in rows if row["state"] == "finished"]
    sign = 1 if lower_is_better else -1
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "study": study,
        "storage": storage,
        "metric": metric,
        "lower_is_better": lower_is_better,
        "scored_on": scored_on,
        "swept": list(asked.grid),
        # The first of equals, and none of its repetitions.
        "best": min(finished, key=lambda row: (sign * row["value"], row["number"]), default=None),
        "trials": sorted(rows, key=lambda row: _rank(row, sign)),
    }


def _row(trial: Any) -> dict[str, Any]:
    seen = trial.intermediate_values
    return {
        "number": trial.number,
        "state": _STATES[trial.state.name],
        "value": trial.value if trial.state.name == "COMPLETE" else None,
        "last_seen": seen[max(seen)] if seen else None,
        "params": dict(trial.params),
        **{key: trial.user_attrs.get(key) for key in ("same_as", "reason", "seconds", "sparsity", "metrics")},
    }


def _rank(row: Mapping[str, Any], sign: int) -> tuple[int, float, int]:
    order = list(_STATES.values()).index(row["state"])
    return order, sign * row["value"] if row["value"] is not None else 0.0, row["number"]


def as_table(results: Mapping[str, Any]) -> list[list[str]]:
    """The best trial first; what was given up, failed or still runs comes last."""
    lines = [["trial", *results["swept"], results["metric"], ""]]
    for row in results["trials"]:
        value = "" if row["value"] is None else f"{row['value']:.4f}"
        told = row["state"] if row["same_as"] is None else f"as trial {row['same_as']}"
        lines.append([str(row["number"]), *(_short(row["params"].get(key)) for key in results["swept"]), value, told])
    return lines


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def write_results(results: dict[str, Any], asked: Sweep, *, examples: int | None) -> dict[str, Any]:
    """results.json, results.md and, once a trial is finished, best.toml."""
    folder, best = asked.folder, results["best"]
    results = {**results, "best_file": None if best is None else str(folder / BEST_FILE)}
    if best is not None:
        write_whole(folder / BEST_FILE, _preset(results, asked, examples))
    write_whole(folder / TABLE_FILE, as_markdown(results))
    write_json(folder / RESULTS_FILE, results)
    return results


def _preset(results: Mapping[str, Any], asked: Sweep, examples: int | None) -> str:
    best = results["best"]
    tried = sum(row["state"] != "running" for row in results["trials"])
    found = f"mgpp sweep, study {results['study']}, trial {best['number']} of {tried}: "
    why = [
        f"{', '.join(asked.grid)}: the best that were tried, by {results['metric']} on training rows that were held "
        "out; the validation rows had no say",
    ]
    return to_toml(
        asked.chosen(best["params"]),
        source=f"{found}{results['metric']} {best['value']:.4f}",
        why=why,
        examples=examples,
    )


def as_markdown(results: Mapping[str, Any]) -> str:
    heading, *lines = as_table(results)
    table = [f"| {' | '.join(line)} |" for line in (heading, ["---"] * len(heading), *lines)]
    parts = [f"# Study {results['study']}", f"By {results['metric']}: {results['scored_on']}.", "\n".join(table)]
    reasons = [f"- trial {row['number']}: {row['reason']}" for row in results["trials"] if row["reason"] is not None]
    if reasons:
        parts.append("\n".join(reasons))
    return "\n\n".join(parts) + "\n"
