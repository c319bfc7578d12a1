"""The numbers behind the page's charts, thinned to what a screen can show."""

from collections.abc import Iterable, Sequence
from typing import Any

from mgpp.report.layers import layers_of, thin
from mgpp.report.run import Run

POINTS, COLUMNS, LOOKS = 300, 60, 60


def payload_of(runs: Sequence[Run]) -> dict[str, Any]:
    return {"runs": [_run(run) for run in runs]}


def _run(run: Run) -> dict[str, Any]:
    schedule = run.schedule or {}
    return {
        "name": run.name,
        "label": run.label,
        "last": run.last,
        "ramp": [schedule["start"], schedule["end"]] if schedule else None,
        "by_size": run.by_size,
        "series": _series(run),
        "layers": _layers(run),
        "looks": _looks(run),
    }


def _series(run: Run) -> dict[str, Any]:
    found: dict[str, tuple[list[int], list[float]]] = {}
    of_cuts = ("cut", "half_width") if run.by_size else ("cut",)
    for keys, events in ((("target", "sparsity"), run.events), (of_cuts, run.cuts)):
        for key in keys:
            having = [event for event in events if key in event]
            found[key] = [event["step"] for event in having], [event[key] for event in having]
    logged = dict.fromkeys(key for log in run.logs for key in log)
    found |= {key: run.logged(key) for key in logged if key == "loss" or key.startswith("eval_")}
    found |= {key: run.looked(key) for key in ("came_back", "in_spike")}
    found["pruned_before"] = _pruned_before(run)
    return {key: _thinned(pair) for key, pair in found.items() if pair[0]}


def _pruned_before(run: Run) -> tuple[list[int], list[float]]:
    """At each look at the spike, what the event before it had left at zero."""
    steps, _ = run.looked("in_spike")
    events = iter(run.events)
    shares, share, event = [], 0.0, next(events, None)
    for step in steps:
        while event is not None and event["step"] < step:
            share, event = event["sparsity"], next(events, None)
        shares.append(share)
    return steps, shares


def _thinned(pair: tuple[list[int], list[float]]) -> tuple[list[int], list[float]]:
    kept = thin([{"step": step, "value": value} for step, value in zip(*pair, strict=True)], POINTS)
    return [point["step"] for point in kept], [_short(point["value"]) for point in kept]


def _layers(run: Run) -> dict[str, Any] | None:
    if not run.events:
        return None
    events, layers = thin(run.events, COLUMNS), layers_of(run.weights)
    return {
        "steps": [event["step"] for event in events],
        "rows": [
            {
                "label": layer.label,
                "kind": layer.kind,
                "block": layer.block,
                "sparsity": [round(event["zeros"][layer.name] / layer.size, 4) for event in events],
            }
            for layer in layers
        ],
    }


def _looks(run: Run) -> list[dict[str, Any]]:
    return [
        {
            "step": record["step"],
            **record["look"]["sizes"],
            **{key: _short(record[key]) for key in ("cut", "half_width") if key in record},
        }
        for record in thin(run.looks, LOOKS)
    ]


def _short(value: float) -> float:
    """Five digits: no screen shows more, and they are half of the page."""
    return float(f"{value:.5g}")


def keys_of(runs: Iterable[Run], prefix: str) -> list[str]:
    """What was logged under names that begin so, in any of the runs."""
    return list(dict.fromkeys(key for run in runs for log in run.logs for key in log if key.startswith(prefix)))
