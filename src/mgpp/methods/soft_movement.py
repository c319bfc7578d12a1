"""Soft movement pruning: learned scores, a rising threshold and a penalty on the scores; the sparsity emerges."""

import math
from dataclasses import asdict, dataclass, replace

import torch

from mgpp.functional.schedule import cubic_sparsity
from mgpp.functional.select import Cut
from mgpp.kernels import Promise
from mgpp.kernels.learning import mask_up_to_
from mgpp.methods.learned import ForwardMask, LearnedScore, Pressure, check_score_lr, mask_lowest, masks
from mgpp.methods.prior import Prior, check_prior, penalty_of
from mgpp.methods.ramp import Ramp, Schedule
from mgpp.methods.recipe import Recipe, Score, Select, Step
from mgpp.methods.times import Run


@dataclass(frozen=True, kw_only=True)
class SoftMovement(Ramp):
    """A weight stays while σ(S) > τ. Along the cubic ramp τ goes to `threshold`, and the penalty λ·mean σ(S) to λ =
    `score_penalty`; how sparse that makes the model is not asked.

    `exact` asks in the end: from `end` on just the asked share has left the mask, lowest scores first. `exact=False`
    is the original, and `sparsity` then only what the records compare with. 17 bytes a weight.
    """

    score_lr: float = 1e-2
    threshold: float = 0.1
    score_penalty: float = 400.0
    exact: bool = True
    prior: Prior | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_structure("a threshold takes weights one by one, however many they are: use Movement, or")
        check_score_lr(self.score_lr)
        check_prior(self.prior)
        if self.initial_sparsity > 0:
            raise ValueError(f"initial_sparsity={self.initial_sparsity}: the sparsity emerges from none, leave it 0")
        if not 0 < self.threshold < 1:
            raise ValueError(f"threshold={self.threshold}: compared with a sigmoid, strictly between 0 and 1")
        if not (math.isfinite(self.score_penalty) and self.score_penalty >= 0):
            raise ValueError(f"score_penalty={self.score_penalty}: a finite number, at least 0")

    def schedule(self, run: Run) -> "Emerging":
        return Emerging(**{**asdict(super().schedule(run)), "initial_sparsity": 0.0})

    def recipe(self, run: Run) -> Recipe:
        schedule = self.schedule(run)
        return Recipe(
            schedule=schedule,
            score=LearnedScore(),
            penalty=penalty_of(self.prior, schedule, run),
            select=AboveThreshold(schedule=schedule, threshold=self.threshold, exact=self.exact),
            between=ForwardMask(lr=self.score_lr, pressure=MeanSigmoid(schedule=schedule, weight=self.score_penalty)),
        )


@dataclass(frozen=True, kw_only=True)
class Emerging(Schedule):
    """No sparsity is asked before the ramp's end."""

    def sparsity_at(self, t: int) -> float:
        return self.sparsity if t >= self.end else 0.0

    def progress(self, t: int) -> float:
        """0 to 1 along the cubic ramp."""
        return cubic_sparsity(t, start=self.start, end=self.end, final=1.0)


@dataclass(frozen=True, kw_only=True)
class MeanSigmoid(Pressure):
    """λ(t) · mean σ(S), over all scores."""

    schedule: Emerging
    weight: float

    def strength(self, *, t: int, total: int) -> float:
        return self.weight * self.schedule.progress(t) / total


@dataclass(frozen=True, kw_only=True)
class AboveThreshold(Select):
    """σ(S) > τ(t); where `exact`, from the ramp's end on, as many as asked by the same scores. The cut is σ's."""

    schedule: Emerging
    threshold: float
    exact: bool

    def __call__(self, step: Step, score: Score, sparsity: float) -> Cut | Promise | None:
        if self.exact and sparsity >= self.schedule.sparsity:
            taken = mask_lowest(step, score, int(sparsity * step.num_weights))
            return Squashed.of(taken)
        tau = self.threshold * self.schedule.progress(step.t)
        keeps = masks(step)
        inputs = score.beside(step)
        taken = mask_up_to_(keeps, _logit(tau), inputs=inputs, ranks=step.ranks, scratch=step.scratch)
        return Squashed.of(taken, tau)


@dataclass(frozen=True)
class Squashed:
    """A promised cut of scores, told as σ's: as σ of it, or as the τ that it was made from."""

    taken: Promise
    tau: float | None

    @classmethod
    def of(cls, taken: Cut | Promise | None, tau: float | None = None) -> Cut | Promise | None:
        if taken is None or isinstance(taken, Cut):
            return taken if taken is None else replace(taken, value=_sigma(taken.value) if tau is None else tau)
        return cls(taken, tau)

    def ready(self) -> bool:
        return self.taken.ready()

    def cut(self) -> Cut:
        cut = self.taken.cut()
        return replace(cut, value=_sigma(cut.value) if self.tau is None else self.tau)

    def zeros(self) -> list[int]:
        return self.taken.zeros()


def _sigma(value: float) -> float:
    return float(torch.sigmoid(torch.tensor(value, dtype=torch.float64)))


def _logit(share: float) -> float:
    return math.log(share / (1 - share)) if share > 0 else -math.inf
