"""Prior annealing: magnitude + a mixture prior whose spike narrows + one shot + the survivors refined."""

from dataclasses import asdict, dataclass

from mgpp.functional.chunks import chunks
from mgpp.functional.mask import count_zeros
from mgpp.functional.prior import half_width
from mgpp.functional.select import Cut
from mgpp.methods.magnitude import SCORES, MagnitudeRamp
from mgpp.methods.prior import Prior
from mgpp.methods.ramp import DoesNotFit, Schedule
from mgpp.methods.recipe import Hold, Recipe, Score, Select, Step
from mgpp.methods.structured import selection
from mgpp.methods.times import Run, Time, check_time, resolve_time


@dataclass(frozen=True, kw_only=True)
class PriorAnnealing(MagnitudeRamp):
    """σ0 falls on a line from √`spike_var_start` to √`spike_var_end` over the ramp; then one shot, at `prune_at`.

    `exact` prunes the asked share of weights; `exact=False` prunes, as the paper, the weights that the prior takes for
    the spike's, and the sparsity is what comes of it. `prune_at=None` is the ramp's end. From there on the prior is
    off and what is pruned stays zero. `every` plays no part: there is one event. `strength` multiplies the prior.
    """

    slab_prob: float = 1e-7
    spike_var_start: float = 1.4e-4
    spike_var_end: float = 3e-5
    slab_var: float = 0.05
    strength: float = 1.0
    exact: bool = True
    prune_at: Time | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.initial_sparsity > 0:
            raise ValueError(
                f"initial_sparsity={self.initial_sparsity}: one shot has no ramp of sparsities, leave it 0"
            )
        for name in ("spike_var_start", "spike_var_end"):
            value = getattr(self, name)
            if not 1e-30 <= value < self.slab_var:
                raise ValueError(f"{name}={value}: the spike is the narrow one, narrower than slab_var={self.slab_var}")
        if self.prune_at is not None:
            check_time("prune_at", self.prune_at, least=1)
        if not self.exact and self.score != "magnitude":
            raise ValueError(f'score={self.score!r}: exact=False compares |θ| with a width, it needs score="magnitude"')
        if not self.exact:
            self.refuse_structure("exact=False takes weights one by one, however many they are: set exact=True, or")
        _ = self.prior  # it checks its settings

    @property
    def prior(self) -> Prior:
        return Prior(
            slab_prob=self.slab_prob,
            spike_var=self.spike_var_end,
            slab_var=self.slab_var,
            strength=self.strength,
            spike_var_start=self.spike_var_start,
        )

    def schedule(self, run: Run) -> "OneShot":
        ramp = super().schedule(run)
        at = ramp.end if self.prune_at is None else resolve_time("prune_at", self.prune_at, run, least=1)
        return OneShot(**{**asdict(ramp), "initial_sparsity": 0.0}, at=at)

    def recipe(self, run: Run) -> Recipe:
        schedule = self.schedule(run)
        width = half_width(slab_prob=self.slab_prob, spike_var=self.spike_var_end, slab_var=self.slab_var)
        return Recipe(
            schedule=schedule,
            score=SCORES[self.score],
            penalty=self.prior.penalty(schedule, run, until=schedule.at),
            select=selection(self.pattern) if self.exact else Within(width),
            between=Hold(),
        )


@dataclass(frozen=True, kw_only=True)
class OneShot(Schedule):
    """The prior follows the ramp; the weights are pruned once, after step `at`."""

    at: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.end <= self.at <= self.last:
            raise DoesNotFit(
                f"prune_at={self.at}: between the ramp's end={self.end} and the run's last step {self.last}"
            )

    @property
    def warning(self) -> None:
        return None

    def sparsity_at(self, t: int) -> float:
        return self.sparsity if t >= self.at else 0.0

    def is_event(self, t: int) -> bool:
        return t == self.at


@dataclass(frozen=True)
class Within(Select):
    """The weights that score at most `width`, however many they are; only those that no event has pruned yet."""

    width: float

    def __call__(self, step: Step, score: Score, sparsity: float) -> Cut:
        if step.memory.get("keep") is None:
            for weight in step.weights:
                for (piece,) in chunks(weight):
                    piece.masked_fill_(score(piece) <= self.width, 0)
        return Cut(value=self.width, below=count_zeros(step.weights, step.ranks), ties=0)
