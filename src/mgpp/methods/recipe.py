"""What a method is made of: a schedule, a score, a penalty, how the lowest scores are taken, and what happens between.

The pieces are values without state of their own. What must last from step to step lies in the pruner's `Memory`, so a
method is saved, resumed and weighed without knowing it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

from mgpp.functional import score as scores
from mgpp.functional.ranks import Ranks
from mgpp.functional.select import Cut
from mgpp.kernels import Plan, Promise, Scratch, count_ahead, mask_, zero_smallest_
from mgpp.methods.memory import Memory
from mgpp.methods.ramp import Schedule


class Gradients(Protocol):
    """Gradients of the loss beside those of the training: `count` batches of `batch_size` rows, the model in eval mode.

    Which rows depends on `step` alone, so that the same call gives the same gradients, after a resumption too.
    """

    def __call__(
        self, weights: Sequence[Tensor], *, count: int, batch_size: int, step: int
    ) -> Iterator[Sequence[Tensor]]: ...


class Holding(Protocol):
    """How the weights of a step relate to the tensors that the optimizer knows, and to other processes.

    A sharded weight is worked on as the part that this process holds.
    """

    @property
    def ranks(self) -> Ranks: ...

    @property
    def sizes(self) -> Sequence[int]:
        """Of the whole weights, all of them."""
        ...

    def owner(self, weight: Tensor) -> Tensor:
        """The tensor in the optimizer that `weight` is, or is part of."""
        ...

    def part(self, weight: Tensor, state: Tensor) -> Tensor:
        """The part of an optimizer's `state` of the owner that belongs to `weight`."""
        ...

    def groups(self, optimizer: Optimizer | None) -> dict[Tensor, dict[str, Any]]:
        """The parameter group of each owner."""
        ...


@dataclass(frozen=True, kw_only=True)
class Step:
    """What the pieces may read and change around one optimizer step. `t` is the step being taken, counted from 1.

    `weights` are all weights to prune, or their parts in this process; each has its gradient, where it has one.
    """

    t: int
    weights: Sequence[Tensor]
    memory: Memory
    holding: Holding
    grad_scale: float | Tensor = 1.0
    optimizer: Optimizer | None = None
    gradients: Gradients | None = None
    plan: Plan | None = None  # of an optimizer that can take the penalty and the count into its own pass
    scratch: Scratch = field(default_factory=dict)  # what fast paths keep between calls
    added: int = 0  # parameters that the method has put beside the pruned ones: they count as kept weights
    turned: frozenset[int] = frozenset()  # the weights, by position, that their layers store as inputs × outputs

    @property
    def ranks(self) -> Ranks:
        return self.holding.ranks

    @property
    def num_weights(self) -> int:
        """Over all processes."""
        return sum(self.holding.sizes)

    @cached_property
    def _groups(self) -> dict[Tensor, dict[str, Any]]:
        return self.holding.groups(self.optimizer)  # at every step, for loading the optimizer's state replaces them

    def group_of(self, weight: Tensor) -> dict[str, Any]:
        """The weight's parameter group in the optimizer; nothing where there is no optimizer."""
        return self._groups.get(self.holding.owner(weight), {})

    def state_of(self, weight: Tensor) -> dict[str, Any]:
        """What the optimizer keeps for the weight: its own tensors, not copies."""
        owner = self.holding.owner(weight)
        state = {} if self.optimizer is None else self.optimizer.state.get(owner, {})
        if owner is weight:
            return state
        return {
            key: self.holding.part(weight, value) if isinstance(value, Tensor) and value.shape == owner.shape else value
            for key, value in state.items()
        }

    def moving(self) -> list[Tensor]:
        """The weights that have a gradient: no others are touched by this step."""
        return [weight for weight in self.weights if weight.grad is not None]

    def matrices(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Tensors that belong to the weights, one to each, as outputs × inputs: views, never copies."""
        return [tensor.t() if i in self.turned else tensor for i, tensor in enumerate(tensors)]

    def learning_rates(self, weights: Sequence[Tensor]) -> list[float]:
        if self.optimizer is None:
            raise RuntimeError("this method follows the learning rate: call pruner.attach(optimizer)")
        faster = 1.0 if self.plan is None else self.plan.faster
        return [float(self.group_of(weight)["lr"]) * faster for weight in weights]


class Penalty(Protocol):
    """What pulls weights to zero."""

    @property
    def reads_second_moments(self) -> Mapping[str, str] | None:
        """If it does: the words of the `setting` that makes it, and of one to take `otherwise`."""
        return None

    def before_step(self, step: Step) -> None:
        """Join the loss's gradient (already clipped), at θ(t-1)."""
        return

    def after_step(self, step: Step) -> None:
        """Act on θ(t) itself, as decoupled weight decay does."""
        return

    def record(self, t: int) -> dict[str, float]:
        """What an event's record should say of it."""
        return {}


class Score(Protocol):
    """What a weight is worth: an elementwise function of the weight and of the tensors beside it. Low goes first."""

    kernel: str | None = None  # its fused form, where it has one (mgpp.kernels.zero_smallest_)
    reads_gradients: bool = False  # `observe` does, with what a penalty has added to them
    reads_second_moments: Mapping[str, str] | None = None  # as a penalty's

    def observe(self, step: Step) -> None:
        """Look at θ(t) and at the gradient that led there."""
        return

    def beside(self, step: Step) -> list[tuple[Tensor, ...]]:
        """The tensors each weight's score is computed from, beside the weight."""
        return [()] * len(step.weights)

    def __call__(self, weight: Tensor, *beside: Tensor) -> Tensor: ...


class Magnitude(Score):
    kernel = "magnitude"

    def __call__(self, weight: Tensor, *beside: Tensor) -> Tensor:
        return scores.magnitude(weight)


class Select(Protocol):
    """How the lowest scores are taken, and how many: by default so many that `sparsity` is met exactly."""

    def ahead(self, step: Step, score: Score, sparsity: float) -> None:
        """An event will follow this step: ask of the optimizer what it can do for it on its way."""
        return

    def least(self, step: Step, sparsity: float) -> int:
        """How many zeros an event at this sparsity leaves, if not more."""
        return int(sparsity * step.num_weights)

    def __call__(self, step: Step, score: Score, sparsity: float) -> Cut | Promise | None: ...


class Everywhere(Select):
    """The lowest of all weights together, wherever they are."""

    def ahead(self, step: Step, score: Score, sparsity: float) -> None:
        # What is held is zero again only after the optimizer's pass.
        if step.plan is not None and step.memory.get("keep") is None:
            step.plan.count = count_ahead(self.least(step, sparsity), score.kernel, step.scratch)

    def __call__(self, step: Step, score: Score, sparsity: float) -> Cut | Promise | None:
        return zero_smallest_(
            step.weights,
            self.least(step, sparsity),
            score=score,
            inputs=score.beside(step),
            kernel=score.kernel,
            count=step.plan.count if step.plan is not None else None,
            ranks=step.ranks,
            scratch=step.scratch,
        )


class Between(Protocol):
    """What happens to pruned weights until the next event: by default they may grow back."""

    def before_step(self, step: Step) -> None:
        return

    def after_step(self, step: Step) -> None:
        return

    def after_skip(self, step: Step) -> None:
        """Undo `before_step`: the optimizer took no step after all."""
        return

    def after_event(self, step: Step) -> None:
        return


class Regrow(Between):
    """Pruned weights were set to zero, not frozen: gradient and momentum may bring them back."""


@dataclass(frozen=True)
class Hold(Between):
    """What an event at step `since` or later has pruned stays zero, whatever the optimizer's momentum says.

    An event needs no mask to know it: a zero has the lowest score there is, so what is held goes first.
    """

    since: int = 0

    def after_step(self, step: Step) -> None:
        keep = step.memory.get("keep")
        if keep is not None:
            mask_(step.weights, keep, scratch=step.scratch)

    def after_event(self, step: Step) -> None:
        if step.t >= self.since:
            for weight, keep in zip(step.weights, step.memory.zeros("keep", torch.bool), strict=True):
                torch.ne(weight, 0, out=keep)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One method in one run."""

    schedule: Schedule
    score: Score = field(default_factory=Magnitude)
    penalty: Penalty | None = None
    select: Select = field(default_factory=Everywhere)
    between: Between = field(default_factory=Regrow)
    samples_gradients: bool = False  # it calls `Step.gradients`
