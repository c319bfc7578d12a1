"""The one driver of a training step: counts steps, adds the penalty, prunes on schedule, and says what it did."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mgpp.account import Account, Record
from mgpp.attachment import Attachment
from mgpp.events import Events
from mgpp.finite import Watch, is_finite, largest_of, require_finite
from mgpp.functional.mask import zeros_of_each
from mgpp.kernels import Scratch
from mgpp.methods import Method, to_dict
from mgpp.methods.adam import require_betas
from mgpp.methods.memory import Memory
from mgpp.methods.ramp import Schedule
from mgpp.methods.recipe import Gradients, Step
from mgpp.methods.times import Run
from mgpp.notebook import pruner_html
from mgpp.preparation import prepare, require_parts_to_do
from mgpp.rates import Rates
from mgpp.sharding import Held, Turn, hold, local_gradients
from mgpp.sharding.replicas import require_same_zeros
from mgpp.state import State
from mgpp.survey import Survey
from mgpp.targets import find_targets, stored_transposed


class Pruner:
    """Prunes `model` with `method` over a run of `total_steps` optimizer steps.

    `pruner.attach(optimizer)` does everything inside `optimizer.step()`. Without it, call `before_step()` after
    clipping and `after_step()` after the optimizer's step. `train_size` is the number of training examples in the
    whole data set (features, for chunked tasks); `on_record` is called with a dict at every pruning event. `gradients`
    is for methods that sample gradients of their own: mgpp.GradientSampler(model, dataset). About `looks` of the
    records also tell how large the weights are and how many came back, from a sample of 65,536 (see survey.py).
    """

    def __init__(
        self,
        model: nn.Module,
        method: Method,
        *,
        total_steps: int,
        train_size: int | None = None,
        steps_per_epoch: float | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        gradients: Gradients | None = None,
        on_record: Callable[[Record], None] | None = None,
        looks: int = 0,
    ) -> None:
        self.method = method
        self.run = Run(total_steps=total_steps, steps_per_epoch=steps_per_epoch, train_size=train_size)
        self.recipe = method.recipe(self.run)
        if self.recipe.samples_gradients and gradients is None:
            raise ValueError(
                f"{method} takes gradients of its own: pass gradients=mgpp.GradientSampler(model, dataset), or a "
                "callable like it"
            )
        if self.schedule.warning is not None:
            warnings.warn(self.schedule.warning, stacklevel=2)
        self.gradients = gradients
        self.added = prepare(model, method, include=include, exclude=exclude)
        self.targets: dict[str, nn.Parameter] = find_targets(model, include=include, exclude=exclude)
        self._turned = stored_transposed(model, self.targets)
        self._held = self._hold()
        self.memory = Memory(list(self.targets), self._weights)
        self._model = model
        self._parameters = list(model.parameters())
        pruned = frozenset(self.targets.values())
        self._others = [parameter for parameter in self._parameters if parameter not in pruned]
        self._account = Account(list(self.targets), self._share, on_record)
        self.survey = Survey(self._held.sizes, self.schedule, looks) if looks else None
        self._events = Events(self.recipe, self._account, self.survey)
        self._state = State(method, self.run, names=list(self.targets), memory=self.memory, survey=self.survey)
        self.t = 0
        self._attachment: Attachment | None = None
        self._rates: Rates | None = None
        self._scratch: Scratch = {}
        self._watch = Watch()

    # What it is

    @property
    def schedule(self) -> Schedule:
        return self.recipe.schedule

    @property
    def num_weights(self) -> int:
        return sum(self._held.sizes)

    @property
    def sizes(self) -> dict[str, int]:
        """How many weights each pruned tensor has, over all processes."""
        return dict(zip(self.targets, self._held.sizes, strict=True))

    @property
    def is_sharded(self) -> bool:
        """Each process has only a part of every weight: what counts or saves must then be called by all of them."""
        return self._held.engine is not None

    @property
    def zeros(self) -> dict[str, int]:
        """How many of each pruned tensor's weights are zero, counted now; over all processes, if they are sharded."""
        zeros = zeros_of_each(self._weights(), self._held.ranks)
        return dict(zip(self.targets, zeros.tolist(), strict=True))

    @property
    def sparsity(self) -> float:
        """The fraction of prunable weights that is gone, counted now: zeros, less the parameters the method added."""
        return self._share(sum(self.zeros.values()))

    @property
    def num_added(self) -> int:
        return sum(parameter.numel() for parameter in self.added.values())

    @property
    def asked_zeros(self) -> int:
        """The fewest zeros that meet the method's sparsity; of whole blocks the last may not have fitted."""
        return self.recipe.select.least(self._step(self.t), self.schedule.sparsity) + self.num_added

    def require_same_zeros(self) -> None:
        """With DDP: raise, in all processes, if they have pruned different weights. All of them must call it."""
        if not self.is_sharded:
            require_same_zeros(self.targets)

    def _weights(self) -> list[Tensor]:
        """All weights to prune; of sharded ones the parts that this process holds."""
        return self._held.now().weights

    def _share(self, zeros: int) -> float:
        return (zeros - self.num_added) / self.num_weights

    def __repr__(self) -> str:
        return f"Pruner({self.method}, step {self.t} of {self.run.total_steps}, {self.num_weights:,} weights)"

    def _repr_html_(self) -> str:
        zeros, last = self.zeros, self.run.total_steps
        share = self._share(sum(zeros.values()))
        return pruner_html(to_dict(self.method), step=self.t, last=last, sparsity=share, zeros=zeros, sizes=self.sizes)

    # One step

    def attach(self, optimizer: Any, *, hooks: bool = True) -> None:
        """Do `before_step` and `after_step` inside every `optimizer.step()`; with hooks=False only get to know it.

        With DeepSpeed give the engine, or the optimizer that `deepspeed.initialize` returned.
        """
        if self._attachment is not None:
            raise RuntimeError("this pruner is attached already: it counts the steps of one optimizer")
        held = self._held = self._hold(optimizer)
        attachment = Attachment(optimizer, held, self.targets, self.added)
        require_betas(self.recipe, attachment.optimizer)
        if held.steps_in_turns and not hooks:
            raise ValueError(f"{held.engine} moves weights only in its own step: attach with hooks, which act there")
        if held.steps_in_turns and self.schedule.lr_power:
            raise ValueError(
                f"lr_power={self.schedule.lr_power:g} gives the pruned weights a learning rate of their own, and "
                f"{held.engine} keeps them in one piece with others: set lr_power=0"
            )
        if self.schedule.lr_power and (attachment.free_plan is None or not hooks):
            self._rates = Rates(attachment.optimizer, self.targets.values(), guard=hooks)
        self._attachment, self._others = attachment, attachment.others
        if self.survey is not None:
            self.survey.of_parts([span.start for span in held.spans], held.ranks)
        if hooks:
            attachment.hook(self._before_step, self._after_step, reads_gradients=self.recipe.score.reads_gradients)
        if attachment.plan is not None:
            attachment.plan.has_rate = self.schedule.lr_power > 0

    def _hold(self, optimizer: Any = None) -> Held:
        held = hold(self.targets, optimizer)
        require_parts_to_do(self.method, held.engine)
        return held

    def detach(self) -> None:
        """Leave the optimizer as it was before `attach`."""
        self.settle()
        if self._attachment is not None:
            self._attachment.remove()
            self._attachment = None
        if self._rates is not None:
            self._rates.remove()
            self._rates = None

    @torch.no_grad()
    def before_step(self, *, grad_scale: float | Tensor | None = None) -> None:
        """Add the penalty's gradient; after clipping, before the optimizer's step.

        With a GradScaler pass the scale its gradients still carry (1.0 after `scaler.unscale_`), and tell
        `after_step` whether the scaler skipped the step. Without one, a gradient that is not finite raises.
        """
        if grad_scale is None:
            self._before_step(1.0)
        elif is_finite(largest_of(local_gradients(self._parameters)), self._held.ranks):  # else the scaler skips it
            self._add_penalty(self._step(self.t + 1, grad_scale))

    @torch.no_grad()
    def _before_step(self, grad_scale: float | Tensor, turn: Turn | None = None) -> None:
        step = self._step(self.t + 1, grad_scale, turn)
        self._watch.before_step(step.weights, self.t, step.ranks, others=self._others)
        self._add_penalty(step)

    def _add_penalty(self, step: Step) -> None:
        if step.plan is not None:
            step.plan.clear()
        self.recipe.between.before_step(step)
        if self.recipe.penalty is not None:
            self.recipe.penalty.before_step(step)
        # A penalty that acts after the optimizer would change what the optimizer has counted.
        alone = self.recipe.penalty is None or (step.plan is not None and step.plan.pull is not None)
        if alone and self.schedule.is_event(step.t):
            self.recipe.select.ahead(step, self.recipe.score, self.schedule.sparsity_at(step.t))
        factor = self.schedule.learning_rate_factor(step.t)
        if step.plan is not None:
            step.plan.faster = factor
        elif self._rates is not None:
            self._rates.raise_(factor)
        elif self.schedule.lr_power:
            raise RuntimeError(
                f"lr_power={self.schedule.lr_power:g} changes the optimizer's learning rate: call "
                "pruner.attach(optimizer), with hooks=False where you call before_step and after_step yourself"
            )

    def _restore_rates(self) -> None:
        if self._rates is not None:
            self._rates.restore()

    def after_step(self, *, skipped: bool = False) -> None:
        """Count the step, and prune if the schedule says so; a step that a GradScaler skipped does not count.

        It follows the optimizer's step at once: with an `lr_power` the optimizer's groups are not yours until then.
        """
        self._after_step(skipped=skipped)

    @torch.no_grad()
    def _after_step(self, turn: Turn | None = None, *, skipped: bool = False) -> None:
        if skipped:
            self._restore_rates()
            self.recipe.between.after_skip(self._step(self.t, turn=turn))
            return
        step = self._step(self.t + 1, turn=turn)
        if self.recipe.penalty is not None:
            self.recipe.penalty.after_step(step)  # which may follow the learning rate that the step was taken with
        self._restore_rates()
        self.recipe.score.observe(step)
        self.recipe.between.after_step(step)
        if turn is not None and not turn.is_last:
            return
        self.t = step.t
        if self.schedule.is_event(self.t):
            whole = step if len(step.weights) == len(self.targets) else self._step(self.t)
            self._events.prune(whole, self.schedule.sparsity_at(self.t))
            self._held.publish(turn)
        elif self.survey is not None and self.t in self.survey.steps:
            self._events.look_around(self._step(self.t))
        if self.t == self.run.total_steps:
            self._account.settle(wait=True)

    @torch.no_grad()
    def finish(self) -> None:
        """Reach the target exactly at the end of a run that skipped steps; does nothing where it is reached."""
        if self.t >= self.run.total_steps:  # every event was held, and not every method counts to a target
            return
        if self._attachment is not None and self._attachment.plan is not None:
            self._attachment.plan.clear()  # the optimizer's state may be another since its last step
        if sum(self.zeros.values()) < self.asked_zeros:
            self._events.prune(self._step(self.t), self.schedule.sparsity)
            self._held.publish(None)
        self._account.settle(wait=True)

    def _step(self, t: int, grad_scale: float | Tensor = 1.0, turn: Turn | None = None) -> Step:
        some = None if turn is None or len(turn.indices) == len(self.targets) else turn.indices
        now, attached = self._held.now(some), self._attachment
        return Step(
            t=t,
            weights=now.weights,
            memory=self.memory if some is None else self.memory.only(some),
            holding=now,
            grad_scale=grad_scale,
            optimizer=None if attached is None else attached.optimizer,
            gradients=self.gradients,
            plan=None if attached is None else attached.plan,
            # A table of addresses that other weights' turn replaces would be made anew at every step.
            scratch=self._scratch if some is None else self._scratch.setdefault(f"turn of {some[0]}", {}),
            added=self.num_added,
            turned=self._turned,
        )

    def prior_at(self, t: int) -> dict[str, float]:
        """What the method's penalty says of itself at step t: a mixture prior its warm-up η and its half-width."""
        return self._events.prior_at(t)

    @property
    def last_record(self) -> Record | None:
        """Of the newest event whose numbers have arrived."""
        self._account.settle(wait=False)
        return self._account.last_record

    @property
    def last_look(self) -> Record | None:
        return self._account.last_look

    def settle(self) -> None:
        """Wait for the numbers of all events from the device, and hand over their records. On a CPU they are there."""
        self._account.settle(wait=True)
        self._watch.settle(self._weights(), self.t)

    # Between sessions

    def save(self, folder: str | Path) -> None:
        """Write the state into `folder`, whole or not at all; `load` reads it on any number of processes.

        One process calls it. Where weights are sharded all do, with the same folder on a disk that they share.
        """
        self.settle()
        self._state.save(Path(folder), self.t, self._held)

    def load(self, folder: str | Path) -> None:
        """Go on where `save` was called; every process calls it."""
        self.t = self._state.load(Path(folder), self._held)

    def require_finite(self) -> None:
        """Refuse to go on where a weight of the model is no longer a number; every process calls it."""
        self.settle()
        require_finite(self._model, self.t, self._held.ranks)

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the run depends on, beside the weights and the optimizer's state.

        What is kept for sharded weights is a DTensor under FSDP2, and this process's part under DeepSpeed.
        """
        self.settle()
        return self._state.at(self.t, self._held)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken. Another method, schedule, model or run is refused, difference shown."""
        self.t = self._state.bring_back(state, self._held)
