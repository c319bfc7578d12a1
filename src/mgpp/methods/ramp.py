"""How sparse, and when: the fields every method shares, and the schedule they become in a run."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from torch import nn

from mgpp.functional.schedule import cubic_sparsity, is_event, learning_rate_factor, prior_warm_up
from mgpp.functional.structure import Groups, Structure, parse_structure
from mgpp.methods.times import Run, Time, check_time, resolve_time


@dataclass(frozen=True, kw_only=True)
class Ramp:
    """The fields all methods share: how sparse, when, and in what pattern. `sparsity` is the fraction removed.

    With an `lr_power` above 0 the weights to prune learn faster as fewer are left: the optimizer steps them with its
    learning rate divided by (1 - v(t))^lr_power.

    `structure` is "2x1" (or any rows x columns) for zeros in whole blocks, "2:4" (or any N:M) for N kept of every M
    inputs, which is a sparsity of its own; without it zeros lie anywhere.
    """

    sparsity: float = None  # type: ignore[assignment]  # N:M brings it along: always a number once the method is made
    start: Time = 0.1
    end: Time = 0.7
    every: Time = 10
    initial_sparsity: float = 0.0
    structure: str | None = None
    lr_power: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sparsity", self._sparsity_of_structure())
        if not 0 <= self.sparsity < 1:
            percent = f"; for {self.sparsity:g}% write {self.sparsity / 100:g}" if 5 <= self.sparsity < 100 else ""
            raise ValueError(f"sparsity={self.sparsity}: the fraction of weights to remove lies in [0, 1){percent}")
        if not 0 <= self.initial_sparsity <= self.sparsity:
            raise ValueError(
                f"initial_sparsity={self.initial_sparsity}: the ramp starts between 0 and sparsity={self.sparsity}"
            )
        if not 0 <= self.lr_power <= 1:
            raise ValueError(
                f"lr_power={self.lr_power}: the learning rate is divided by this power of the share of weights that is "
                "left, from 0 (as the optimizer has it) to 1"
            )
        check_time("start", self.start)
        check_time("end", self.end, least=1)
        check_time("every", self.every, least=1)

    @property
    def pattern(self) -> Structure | None:
        return None if self.structure is None else parse_structure(self.structure)

    def _sparsity_of_structure(self) -> float:
        pattern = self.pattern
        if isinstance(pattern, Groups):
            if self.sparsity is not None and not math.isclose(self.sparsity, pattern.sparsity):
                raise ValueError(
                    f'sparsity={self.sparsity}: structure="{pattern}" keeps {pattern.kept} of every {pattern.group} '
                    f"weights, a sparsity of {pattern.sparsity:g}: leave sparsity out"
                )
            return pattern.sparsity
        if self.sparsity is None:
            raise ValueError("sparsity is missing: give the fraction of weights to remove, for example sparsity=0.9")
        return self.sparsity

    def refuse_structure(self, reason: str) -> None:
        """For methods that have no room for one."""
        if self.structure is not None:
            raise ValueError(f"structure={self.structure!r}: {reason}, leave structure out")

    @property
    def needs_whole(self) -> str | None:
        """Why the method cannot work on the parts of sharded weights; None: it can."""
        return None if self.structure is None else f"the pattern {self.structure} lies over whole matrices"

    @property
    def event_cost(self) -> str | None:
        """What an event computes beside, where that takes longer than a step."""
        return None

    @property
    def holds_zeros(self) -> bool:
        """What the event that reaches `sparsity` has pruned never comes back."""
        return False

    def prepare(self, model: nn.Module, targets: Mapping[str, nn.Parameter]) -> dict[str, nn.Parameter]:
        """Change the layers that hold `targets` where the method needs other ones; the parameters it added, by name."""
        if self.structure is not None:
            require_matrices(targets, f"structure={self.structure!r}")
        return {}

    @property
    def on_init_end(self) -> NoReturn:
        """What a Trainer first asks of its callbacks, and is told where a method was given in a callback's place."""
        name = type(self).__name__
        raise AttributeError(f"{name} is a method, not a callback: write callbacks=[mgpp.PruningCallback({name}(...))]")

    def schedule(self, run: Run) -> "Schedule":
        return Schedule(
            sparsity=self.sparsity,
            initial_sparsity=self.initial_sparsity,
            start=resolve_time("start", self.start, run),
            end=resolve_time("end", self.end, run, least=1),
            every=resolve_time("every", self.every, run, least=1),
            last=run.total_steps,
            held=self.holds_zeros,
            lr_power=self.lr_power,
        )


def require_matrices(targets: Mapping[str, nn.Parameter], what: str) -> None:
    """Refuse what has not two dimensions, such as the experts of a mixture, with a glob to leave it out by."""
    for name, weight in targets.items():
        if weight.dim() != 2:
            holder = name.split(".")[-2:-1]
            raise ValueError(
                f"{name} has shape {tuple(weight.shape)}: {what} is for matrices, not for stacks of them (experts); "
                f"leave it out with exclude=['{f'*.{holder[0]}.*' if holder else name}']"
            )


class DoesNotFit(ValueError):
    """A ramp that lies outside its run."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A ramp with its times in steps. Refuses what does not fit the run: it never bends a schedule silently.

    `held`: zeros are not only made but kept, so the first event at full sparsity leaves nothing to the others.
    """

    sparsity: float
    initial_sparsity: float
    start: int
    end: int
    every: int
    last: int
    held: bool = False
    lr_power: float = 0.0

    def __post_init__(self) -> None:
        if self.start >= self.end:
            raise DoesNotFit(
                f"start={self.start} is not before end={self.end} in a run of {self.last} steps: "
                "lower start, raise end or train for longer"
            )
        if self.end > self.last:
            raise DoesNotFit(f"end={self.end} is past the run's last step {self.last}: lower end or train for longer")

    def sparsity_at(self, t: int) -> float:
        return cubic_sparsity(t, start=self.start, end=self.end, final=self.sparsity, initial=self.initial_sparsity)

    def is_event(self, t: int) -> bool:
        return is_event(t, start=self.start, end=self.end, every=self.every, last=self.last, held=self.held)

    @property
    def warning(self) -> str | None:
        """Of a ramp that has no event on its way: all that it asks for goes in one step."""
        way = range(self.start if self.initial_sparsity > 0 else self.start + 1, self.end)
        if not way or self.sparsity == 0 or any(map(self.is_event, way)):
            return None
        return (
            f"no event falls between start={self.start} and end={self.end} with every={self.every}, so all weights go "
            "in one step: lower every, or train for longer"
        )

    def learning_rate_factor(self, t: int) -> float:
        """By how much the weights to prune learn faster than the optimizer says."""
        return learning_rate_factor(self.sparsity_at(t), power=self.lr_power)

    def warm_up(self, t: int) -> float:
        return prior_warm_up(t, start=self.start)
