"""What every engine must tell of the weights, and the engine that shards nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from mgpp.functional.ranks import ALONE, Ranks

Groups = dict[Tensor, dict[str, Any]]  # the parameter group of each tensor in an optimizer


class Span(NamedTuple):
    """Which elements of a whole weight, read row after row."""

    start: int
    stop: int


@dataclass(frozen=True)
class Turn:
    """One call of the optimizer's step. An engine may make several in a training step, each for some of the weights."""

    indices: Sequence[int]
    is_last: bool


@dataclass(frozen=True, kw_only=True)
class Now:
    """The weights, or this process's parts of them, as they lie at this moment, each with its gradient.

    Made for one step and dropped with it, so that nobody holds a gradient which the engine has let go.
    """

    weights: list[Tensor]
    ranks: Ranks
    sizes: Sequence[int]
    owners: Mapping[Tensor, Tensor] = field(default_factory=dict)
    part_of: Callable[[Tensor, Tensor], Tensor] | None = None
    known_groups: Groups | None = None

    def owner(self, weight: Tensor) -> Tensor:
        return self.owners.get(weight, weight) if self.owners else weight

    def part(self, weight: Tensor, state: Tensor) -> Tensor:
        return state if self.part_of is None else self.part_of(weight, state)

    def groups(self, optimizer: Optimizer | None) -> Groups:
        return groups_of(optimizer) if self.known_groups is None else self.known_groups


def groups_of(optimizer: Optimizer | None) -> Groups:
    return {param: group for group in (optimizer.param_groups if optimizer else []) for param in group["params"]}


def whole_size(param: Tensor) -> int:
    """Between steps ZeRO 3 leaves nothing of a weight in its parameter, and notes how large it was."""
    return int(getattr(param, "ds_numel", param.numel()))


def own_part(saved: Tensor, size: int, span: Span) -> Tensor:
    """Of a saved tensor that is either all of `size` numbers or those of `span`: the latter, flat."""
    if saved.numel() == span.stop - span.start:
        return saved.flatten()
    if saved.numel() == size:
        return saved.flatten()[span.start : span.stop]
    raise ValueError(
        f"the saved state has {saved.numel()} numbers where this process has {span.stop - span.start} of {size}: it "
        "was taken on another number of processes, for which there are pruner.save(folder) and pruner.load(folder)"
    )


class Held(Protocol):
    """What this process holds of the weights. `spans` are its parts of the whole ones."""

    ranks: Ranks
    sizes: Sequence[int]
    engine: str | None  # None where nothing is sharded
    steps_in_turns: bool  # the optimizer is called several times in a training step, and only by the engine
    is_writer: bool  # of its parts: other processes may hold copies of them

    @property
    def spans(self) -> list[Span]: ...

    def now(self, indices: Sequence[int] | None = None) -> Now:
        """All weights, or some of them."""
        ...

    def turn(self, optimizer: Optimizer) -> Turn | None:
        """Whose step is being taken; None: nobody's of these."""
        ...

    def untrained(self, optimizer: Optimizer) -> list[int]:
        """The weights that the optimizer does not know."""
        ...

    def publish(self, turn: Turn | None) -> None:
        """Weights have been changed in `turn`, or outside of a step: let the engine know where it would not notice."""
        ...

    def to_state(self, index: int, part: Tensor) -> Tensor:
        """A tensor that belongs to this process's part of a weight, as `Pruner.state_dict` gives it out."""
        ...

    def from_state(self, index: int, saved: Tensor) -> Tensor:
        """And as it comes back, all of it or this process's part: the part, in its shape."""
        ...


class Whole(Held):
    """Nothing is sharded: one process, or DDP, where every process has all weights and comes to the same result."""

    engine: str | None = None
    steps_in_turns = False
    ranks = ALONE
    is_writer = True

    def __init__(self, params: Sequence[nn.Parameter]) -> None:
        self.sizes = [whole_size(param) for param in params]
        self._now = Now(weights=list(params), ranks=ALONE, sizes=self.sizes)
        self._turn = Turn(range(len(params)), is_last=True)

    @property
    def spans(self) -> list[Span]:
        return [Span(0, size) for size in self.sizes]

    def now(self, indices: Sequence[int] | None = None) -> Now:
        return self._now

    def turn(self, optimizer: Optimizer) -> Turn:
        return self._turn

    def untrained(self, optimizer: Optimizer) -> list[int]:
        trained = groups_of(optimizer)
        return [i for i, weight in enumerate(self._now.weights) if weight not in trained]

    def publish(self, turn: Turn | None) -> None:
        return

    def to_state(self, index: int, part: Tensor) -> Tensor:
        return part

    def from_state(self, index: int, saved: Tensor) -> Tensor:
        return saved.view(self._now.weights[index].shape)


class OutOfReach(Whole):
    """Weights of ZeRO 3 before the pruner has met DeepSpeed's optimizer, which keeps them."""

    engine = "DeepSpeed"

    def now(self, indices: Sequence[int] | None = None) -> Now:
        raise RuntimeError("DeepSpeed keeps the weights: call pruner.attach(engine) first")

    def untrained(self, optimizer: Optimizer) -> list[int]:
        return list(range(len(self.sizes)))
