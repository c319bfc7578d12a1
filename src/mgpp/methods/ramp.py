"""How sparse, and when: the fields every method shares, and the schedule they become in a run."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from mgpp.functional.schedule import cubic_sparsity, is_event, prior_warm_up
from mgpp.methods.times import Run, Time, check_time, resolve_time


@dataclass(frozen=True, kw_only=True)
class Ramp:
    """The fields all methods share: how sparse, and when. `sparsity` is the fraction removed."""

    sparsity: float
    start: Time = 0.1
    end: Time = 0.7
    every: Time = 10
    initial_sparsity: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.sparsity < 1:
            percent = f"; for {self.sparsity:g}% write {self.sparsity / 100:g}" if 5 <= self.sparsity < 100 else ""
            raise ValueError(f"sparsity={self.sparsity}: the fraction of weights to remove lies in [0, 1){percent}")
        if not 0 <= self.initial_sparsity <= self.sparsity:
            raise ValueError(
                f"initial_sparsity={self.initial_sparsity}: the ramp starts between 0 and sparsity={self.sparsity}"
            )
        check_time("start", self.start)
        check_time("end", self.end, least=1)
        check_time("every", self.every, least=1)

    def prepare(self, model: nn.Module, targets: Mapping[str, nn.Parameter]) -> dict[str, nn.Parameter]:
        """Change the layers that hold `targets` where the method needs other ones; the parameters it added, by name."""
        return {}

    def schedule(self, run: Run) -> "Schedule":
        return Schedule(
            sparsity=self.sparsity,
            initial_sparsity=self.initial_sparsity,
            start=resolve_time("start", self.start, run),
            end=resolve_time("end", self.end, run, least=1),
            every=resolve_time("every", self.every, run, least=1),
            last=run.total_steps,
        )


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A ramp with its times in steps. Refuses what does not fit the run: it never bends a schedule silently."""

    sparsity: float
    initial_sparsity: float
    start: int
    end: int
    every: int
    last: int

    def __post_init__(self) -> None:
        if self.start >= self.end:
            raise ValueError(
                f"start={self.start} is not before end={self.end} in a run of {self.last} steps: "
                "lower start, raise end or train for longer"
            )
        if self.end > self.last:
            raise ValueError(f"end={self.end} is past the run's last step {self.last}: lower end or train for longer")

    def sparsity_at(self, t: int) -> float:
        return cubic_sparsity(t, start=self.start, end=self.end, final=self.sparsity, initial=self.initial_sparsity)

    def is_event(self, t: int) -> bool:
        return is_event(t, start=self.start, end=self.end, every=self.every, last=self.last)

    def warm_up(self, t: int) -> float:
        return prior_warm_up(t, start=self.start)
