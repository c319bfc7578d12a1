"""What pruning cost: in the metric, in bytes and in time; against a dense run where one is given."""

from collections.abc import Sequence
from dataclasses import dataclass

from mgpp.report.run import Run

MODEL_FILE = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """None is what cannot be said: of an unfinished run, or without a dense one beside it."""

    metric: str | None
    score: float | None
    dense_score: float | None
    dense_name: str | None
    seconds: float | None
    seconds_per_step: float | None
    dense_seconds_per_step: float | None
    file_bytes: int | None
    weights_left: int
    weights: int
    bitmask_bytes: int

    @property
    def difference(self) -> float | None:
        return None if self.score is None or self.dense_score is None else self.score - self.dense_score


def cost_of(run: Run, runs: Sequence[Run]) -> Cost:
    result = run.result or {}
    metric = result.get("metric")
    dense = dense_beside(run, runs)
    dense_result = (dense.result if dense is not None else None) or {}
    weights = sum(run.weights.values())
    left = weights - sum(run.events[-1]["zeros"].values()) if run.events else weights
    return Cost(
        metric=metric,
        score=result.get("after", {}).get(metric),
        dense_score=dense_result.get("after", {}).get(metric),
        dense_name=None if dense is None else dense.name,
        seconds=result.get("seconds"),
        seconds_per_step=_per_step(result),
        dense_seconds_per_step=_per_step(dense_result),
        file_bytes=result.get("files", {}).get(MODEL_FILE),
        weights_left=left,
        weights=weights,
        bitmask_bytes=weights // 8 + 4 * left,
    )


def dense_beside(run: Run, runs: Sequence[Run]) -> Run | None:
    """A finished dense run of the same model and data among `runs`; of the same seed if there is one."""
    config = run.config
    if run.method is None or config is None:
        return None
    alike = [
        other
        for other in runs
        if other.method is None
        and other.result is not None
        and all((other.config or {}).get(key) == config.get(key) for key in ("model", "data", "eval_data"))
    ]
    return min(alike, key=lambda other: (other.config or {}).get("seed") != config["seed"], default=None)


def _per_step(result: dict) -> float | None:
    return result["seconds"] / result["steps"] if result.get("steps") and result.get("seconds") else None
