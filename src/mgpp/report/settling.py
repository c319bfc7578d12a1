"""Had training settled? A line through the losses after the ramp, and how sure one can be of its slope."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mgpp.report.run import Run

FEWEST = 6  # losses that a slope can be read from
SURE = 2.0  # standard errors


@dataclass(frozen=True, kw_only=True)
class Trend:
    """A least-squares line: its height at both ends, and its slope in standard errors."""

    first: float
    last: float
    errors: float

    @property
    def change(self) -> float:
        return self.last - self.first


@dataclass(frozen=True, kw_only=True)
class Settling:
    """`verdict`: settled, falling, rising, or unknown; `text` says it to a person."""

    verdict: str
    text: str
    trend: Trend | None = None


def settling_of(run: Run) -> Settling:
    if run.schedule is None:
        return _of_dense(run)
    end = run.schedule["end"]
    if end >= run.last and run.step >= run.last:
        return Settling(
            verdict="unknown",
            text=f"The ramp ended with the run, at step {end:,}: there was no time to settle at the final sparsity.",
        )
    if run.step <= end:
        return Settling(verdict="unknown", text=f"The ramp goes on until step {end:,}: too early to say.")
    steps, losses = _after(run, end)
    return _verdict(steps, losses, f"After the ramp ended at step {end:,}")


def _of_dense(run: Run) -> Settling:
    half = run.step // 2
    return _verdict(*_after(run, half), f"In the second half, from step {half:,} on,")


def _after(run: Run, step: int) -> tuple[list[int], list[float]]:
    pairs = [(t, loss) for t, loss in zip(*run.logged("loss"), strict=True) if t > step]
    return [t for t, _ in pairs], [loss for _, loss in pairs]


def _verdict(steps: list[int], losses: list[float], when: str) -> Settling:
    if len(losses) < FEWEST:
        few = {0: "no loss was", 1: "only 1 loss was"}.get(len(losses), f"only {len(losses)} losses were")
        text = f"{when} {few} logged, too little to tell: log more often (--logging-steps)."
        return Settling(verdict="unknown", text=text)
    trend = trend_of(steps, losses)
    told = f"a line through the {len(losses)} logged losses goes from {trend.first:.3f} to {trend.last:.3f}"
    sure = f"{abs(trend.errors):.1f} standard errors" if math.isfinite(trend.errors) else "without any noise"
    # A fall that is sure but small is a model that has settled and is being polished.
    if abs(trend.errors) < SURE or abs(trend.change) < 0.02 * abs(trend.first):
        return Settling(verdict="settled", text=f"{when} {told}: no clear change ({sure}).", trend=trend)
    verdict = "falling" if trend.change < 0 else "rising"
    how = "it was still falling" if trend.change < 0 else "it was rising"
    return Settling(verdict=verdict, text=f"{when} {told}: {how} ({sure}).", trend=trend)


def trend_of(steps: Sequence[int], values: Sequence[float]) -> Trend:
    count = len(steps)
    middle, mean = sum(steps) / count, sum(values) / count
    spread = sum((step - middle) ** 2 for step in steps)
    slope = sum((step - middle) * (value - mean) for step, value in zip(steps, values, strict=True)) / spread
    left = sum((value - mean - slope * (step - middle)) ** 2 for step, value in zip(steps, values, strict=True))
    error = math.sqrt(left / (count - 2) / spread)
    errors = slope / error if error > 0 else math.copysign(math.inf, slope) if slope else 0.0
    return Trend(
        first=mean + slope * (steps[0] - middle),
        last=mean + slope * (steps[-1] - middle),
        errors=errors,
    )
