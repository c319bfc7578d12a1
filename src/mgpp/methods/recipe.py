"""The four pieces every method is made of: a schedule, a score, a penalty, and what happens between events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from torch import Tensor

from mgpp.functional import score as scores
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
            raise ValueError(f"sparsity={self.sparsity}: the fraction of weights to remove lies in [0, 1)")
        if not 0 <= self.initial_sparsity <= self.sparsity:
            raise ValueError(
                f"initial_sparsity={self.initial_sparsity}: the ramp starts between 0 and sparsity={self.sparsity}"
            )
        check_time("start", self.start)
        check_time("end", self.end, least=1)
        check_time("every", self.every, least=1)

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


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a penalty may read and change around one optimizer step: only weights that have a gradient, aligned.

    `groups` are the optimizer's parameter groups of these weights, where the optimizer is known.
    """

    t: int
    weights: Sequence[Tensor]
    grads: Sequence[Tensor]
    grad_scale: float | Tensor = 1.0
    groups: Sequence[Mapping[str, Any]] | None = None

    def learning_rates(self) -> list[float]:
        if self.groups is None:
            raise RuntimeError("a decoupled penalty follows the learning rate: call pruner.attach(optimizer)")
        return [float(group["lr"]) for group in self.groups]


class Penalty(Protocol):
    """What pulls weights to zero."""

    def before_step(self, step: Step) -> None:
        """Join the loss's gradient (already clipped), at θ(t-1)."""

    def after_step(self, step: Step) -> None:
        """Act on θ(t) itself, as decoupled weight decay does."""

    def record(self, t: int) -> dict[str, float]:
        """What an event's record should say of it."""


class Score(Protocol):
    """What a weight is worth: an elementwise function of the weight and of the tensors beside it."""

    def __call__(self, weight: Tensor, *beside: Tensor) -> Tensor: ...


Hold = Literal["never", "always", "after-ramp"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One method in one run. `hold` says when a pruned weight must stay pruned; otherwise it may grow back."""

    schedule: Schedule
    score: Score = field(default=scores.magnitude)
    penalty: Penalty | None = None
    hold: Hold = "never"
