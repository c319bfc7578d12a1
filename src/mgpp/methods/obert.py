"""Optimal brain surgery: a second-order score from sampled gradients + the survivors make up for what goes + held."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mgpp.functional import fisher
from mgpp.functional.mask import mask_smallest_
from mgpp.functional.select import Cut
from mgpp.functional.structure import Blocks, Structure
from mgpp.kernels import mask_
from mgpp.methods.prior import Prior, check_prior, penalty_of
from mgpp.methods.ramp import Ramp
from mgpp.methods.recipe import Between, Recipe, Score, Select, Step
from mgpp.methods.structured import leave_masks_, matrices_beside, shapes_of
from mgpp.methods.times import Run, Time

DIAGONAL = "inverse_fisher_diagonal"
STACKED = 16  # gradients whose outer products are taken at once: fewer passes over the blocks for 16/B more memory


@dataclass(frozen=True, kw_only=True)
class OBERT(Ramp):
    """At an event `num_grads` gradients of `batch_size` rows give the Fisher matrix, in blocks of `block` weights.

    `damp` is added to its diagonal. It takes d·`block` numbers, of which at most `memory_gb` GiB are held at a time:
    where that is less than all, layers take turns, and each turn samples the gradients again, twice.
    """

    every: Time = 0.05  # an event costs `num_grads` backward passes
    num_grads: int = 1024
    block: int = 50
    damp: float = 1e-7
    batch_size: int = 16
    memory_gb: float = 8.0
    prior: Prior | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_prior(self.prior)
        for name in ("num_grads", "block", "batch_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}={value}: a whole number, at least 1")
        if not (math.isfinite(self.damp) and self.damp > 0):
            raise ValueError(f"damp={self.damp}: a finite number above 0, for the matrix to be inverted")
        if not (math.isfinite(self.memory_gb) and self.memory_gb > 0):
            raise ValueError(f"memory_gb={self.memory_gb}: a finite number above 0")

    @property
    def needs_whole(self) -> str:
        return "the blocks of its Fisher matrix run through whole weights"

    @property
    def event_cost(self) -> str:
        return f"{self.num_grads:,} gradients of {self.batch_size} rows each (num_grads, batch_size)"

    @property
    def holds_zeros(self) -> bool:
        return True

    def recipe(self, run: Run) -> Recipe:
        schedule = self.schedule(run)
        surgeon = Surgeon(
            num_grads=self.num_grads,
            block=self.block,
            damp=self.damp,
            batch_size=self.batch_size,
            memory_gb=self.memory_gb,
            structure=self.pattern,
        )
        return Recipe(
            schedule=schedule,
            score=Saliency(),
            penalty=penalty_of(self.prior, schedule, run),
            select=surgeon,
            between=Pruned(),
            samples_gradients=True,
        )


class Saliency(Score):
    """θ² / (2 [F⁻¹]ᵢᵢ + ε), -inf for what is pruned already."""

    def beside(self, step: Step) -> list[tuple[Tensor, ...]]:
        return list(zip(keeps(step), diagonals_of(step), strict=True))

    def __call__(self, weight: Tensor, *beside: Tensor) -> Tensor:
        keep, inverse_diagonal = beside
        return fisher.saliency(weight, inverse_diagonal).where(keep, float("-inf"))


class Pruned(Between):
    """What is pruned stays zero, whatever the optimizer's momentum says."""

    def after_step(self, step: Step) -> None:
        keep = step.memory.get("keep")
        if keep is not None:
            mask_(step.weights, keep, scratch=step.scratch)


def keeps(step: Step) -> list[Tensor]:
    if step.memory.get("keep") is None:
        step.memory.set("keep", [torch.ones_like(weight, dtype=torch.bool) for weight in step.weights])
    return step.memory.zeros("keep")


def diagonals_of(step: Step) -> list[Tensor]:
    """[F⁻¹]ᵢᵢ as the last sampling found it. Always contiguous, whatever the weight is: spans are written to it."""
    if step.memory.get(DIAGONAL) is None:
        empty = [torch.zeros(w.shape, dtype=_precision(w), device=w.device) for w in step.weights]
        step.memory.set(DIAGONAL, empty)
    return step.memory.zeros(DIAGONAL)


@dataclass(frozen=True)
class Span:
    """A stretch of one weight matrix, read row after row; it starts where a block starts."""

    weight: int
    start: int
    stop: int

    def of(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(-1)[self.start : self.stop]


def group_spans(sizes: Sequence[int], *, block: int, most: int) -> list[list[Span]]:
    """All weights in groups of at most `most` (and at least one block), in order, cut only between blocks."""
    room = full = max(1, most // block) * block
    groups: list[list[Span]] = [[]]
    for weight, size in enumerate(sizes):
        start = 0
        while start < size:
            if room < block:
                groups.append([])
                room = full
            stop = min(size, start + room)
            groups[-1].append(Span(weight, start, stop))
            room -= math.ceil((stop - start) / block) * block
            start = stop
    return groups


@dataclass(frozen=True, kw_only=True)
class Surgeon(Select):
    """The lowest go, and the others make up for them; where no more are asked than are gone, nothing is sampled."""

    num_grads: int
    block: int
    damp: float
    batch_size: int
    memory_gb: float
    structure: Structure | None = None

    def least(self, step: Step, sparsity: float) -> int:
        if self.structure is None:
            return super().least(step, sparsity)
        return self.structure.least(shapes_of(step), sparsity)

    def __call__(self, step: Step, score: Score, sparsity: float) -> Cut:
        k = int(sparsity * sum(weight.numel() for weight in step.weights))
        if self.structure is not None:
            k = self.structure.most(shapes_of(step), sparsity)
        before = keeps(step)
        room = k - _total([keep.numel() - keep.count_nonzero() for keep in before])
        if room < (self.structure.size if isinstance(self.structure, Blocks) else 1):
            return Cut(value=_lowest_kept(step, score), below=k - room, ties=0)
        groups = group_spans([keep.numel() for keep in before], block=self.block, most=self._most(step))
        inverses: list[Tensor] = []
        for group in groups:
            self._invert(step, group, inverses)
            self._note_diagonals(step, group, inverses)
        if len(groups) > 1:
            inverses.clear()
        after, lowest = _choose(step, score, k, self.structure)
        moves = [
            torch.where(old & ~new, weight, 0).to(_precision(weight)).contiguous()
            for weight, old, new in zip(step.weights, before, after, strict=True)
        ]
        # Every gradient is taken at the weights as they are: none may move before the last turn.
        for group in groups:
            if len(groups) > 1:
                self._invert(step, group, inverses)
            self._compensate(group, inverses, moves)
        for weight, move in zip(step.weights, moves, strict=True):
            weight.add_(move)
        mask_(step.weights, after, scratch=step.scratch)
        step.memory.set("keep", after)
        return Cut(value=lowest, below=k, ties=0)

    def _most(self, step: Step) -> int:
        """How many weights' blocks, and stacked gradients, the memory holds."""
        size = max(_precision(weight).itemsize for weight in step.weights)
        return int(self.memory_gb * 2**30 / (size * (self.block + STACKED)))

    def _invert(self, step: Step, group: Sequence[Span], inverses: list[Tensor]) -> None:
        """Fill `inverses` with F⁻¹ of each span, blocks × B × B; what they held is freed first."""
        inverses.clear()
        inverses += self._outer_products(step, group)
        for total in inverses:
            if not torch.isfinite(total.sum()):  # the sum: a mask of all would take a quarter more memory
                raise FloatingPointError(
                    f"a gradient sampled after step {step.t} is not finite: lower the learning rate, or train in "
                    "bf16 or fp32 where it is fp16"
                )
            fisher.invert_(total, count=self.num_grads, damp=self.damp)
            if not (fisher.diagonal(total) > 0).all():
                raise FloatingPointError(
                    f"damp={self.damp} is lost in the rounding of the gradients sampled after step {step.t}: raise it"
                )

    def _outer_products(self, step: Step, group: Sequence[Span]) -> list[Tensor]:
        indices = sorted({span.weight for span in group})
        place = {weight: i for i, weight in enumerate(indices)}
        totals = [self._blocks(step, span, self.block) for span in group]
        stacks = [self._blocks(step, span, STACKED) for span in group]
        keep = keeps(step)
        taken = 0
        for grads in self._sample(step, [step.weights[i] for i in indices]):
            slot = taken % STACKED
            for span, stack in zip(group, stacks, strict=True):
                grad = span.of(grads[place[span.weight]]) * span.of(keep[span.weight])
                stack[..., slot] = fisher.into_blocks(grad.to(stack.dtype), self.block)
            taken += 1
            if slot == STACKED - 1 or taken == self.num_grads:
                for total, stack in zip(totals, stacks, strict=True):
                    fisher.add_outer_products_(total, stack[..., : slot + 1])
        if taken != self.num_grads:
            raise ValueError(f"the sampler gave {taken} gradients, {self.num_grads} were asked for")
        return totals

    def _sample(self, step: Step, weights: Sequence[Tensor]) -> Iterator[Sequence[Tensor]]:
        assert step.gradients is not None
        return step.gradients(weights, count=self.num_grads, batch_size=self.batch_size, step=step.t)

    def _blocks(self, step: Step, span: Span, width: int) -> Tensor:
        weight = step.weights[span.weight]
        count = math.ceil((span.stop - span.start) / self.block)
        return torch.zeros(count, self.block, width, dtype=_precision(weight), device=weight.device)

    def _note_diagonals(self, step: Step, group: Sequence[Span], inverses: Sequence[Tensor]) -> None:
        diagonals = diagonals_of(step)
        for span, inverse in zip(group, inverses, strict=True):
            found = fisher.out_of_blocks(fisher.diagonal(inverse), span.stop - span.start)
            span.of(diagonals[span.weight]).copy_(found)

    def _compensate(self, group: Sequence[Span], inverses: Sequence[Tensor], pruned: Sequence[Tensor]) -> None:
        """Replace the weights that go, in place, by what to add to all."""
        for span, inverse in zip(group, inverses, strict=True):
            going = span.of(pruned[span.weight])
            change = fisher.compensation(inverse, fisher.into_blocks(going, self.block))
            going.copy_(fisher.out_of_blocks(change, going.numel()))


def _precision(weight: Tensor) -> torch.dtype:
    return torch.promote_types(weight.dtype, torch.float32)


def _choose(step: Step, score: Score, k: int, structure: Structure | None) -> tuple[list[Tensor], float]:
    """The masks that k weights have left, with the diagonals as they are noted, and the lowest score that stays."""
    masks = [torch.empty_like(keep) for keep in keeps(step)]
    inputs = [(weight, *beside) for weight, beside in zip(step.weights, score.beside(step), strict=True)]

    def worth(mask: Tensor, *rest: Tensor) -> Tensor:
        return score(*rest)

    if structure is None:
        return masks, float(mask_smallest_(masks, k, score=worth, inputs=inputs))
    turned = matrices_beside(step, inputs)
    return masks, leave_masks_(step.matrices(masks), k, structure=structure, score=worth, inputs=turned).value


def _lowest_kept(step: Step, score: Score) -> float:
    pairs = zip(step.weights, score.beside(step), strict=True)
    lowest = [score(weight, *beside).masked_fill_(~beside[0], math.inf).min() for weight, beside in pairs]
    return float(_gathered(lowest).min())


def _total(counts: Sequence[Tensor]) -> int:
    return int(_gathered(counts).sum())


def _gathered(numbers: Sequence[Tensor]) -> Tensor:
    """Side by side on one device, so that it is waited for once."""
    return torch.stack([number.to(numbers[0].device) for number in numbers])
