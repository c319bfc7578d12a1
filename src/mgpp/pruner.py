"""The one driver of a training step: counts steps, adds the penalty, prunes on schedule, and says what it did."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from mgpp.functional.select import Cut
from mgpp.kernels import Arriving, Plan, Promise, Scratch, is_capturing
from mgpp.kernels.cpu import Taken
from mgpp.methods import Method, to_dict
from mgpp.methods.ramp import Schedule
from mgpp.methods.recipe import Gradients, Memory, Step
from mgpp.methods.times import Run
from mgpp.notebook import pruner_html
from mgpp.survey import Look, Survey
from mgpp.targets import find_targets, stored_transposed, unwrap

Record = dict[str, Any]

WATCH_EVERY = 8  # steps, on a GPU: looking at a number there costs the host 0.1 ms


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
        self.gradients = gradients
        self.added = prepare(model, method, include=include, exclude=exclude)
        self.targets: dict[str, nn.Parameter] = find_targets(model, include=include, exclude=exclude)
        self._turned = stored_transposed(model, self.targets)
        self.memory = Memory(self.targets)
        self._parameters = list(model.parameters())
        self.on_record = on_record
        self.survey = Survey(list(self.targets.values()), self.schedule, looks) if looks else None
        self.t = 0
        self.last_record: Record | None = None
        self.last_look: Record | None = None
        self._optimizer: Optimizer | None = None
        self._hooks: list[RemovableHandle] = []
        self._plan: Plan | None = None
        self._scratch: Scratch = {}
        self._promised: deque[tuple[Record, Promise | None, Look | None]] = deque()
        self._watched: deque[tuple[str, Arriving]] = deque()
        self._overflowed = False

    # What it is

    @property
    def schedule(self) -> Schedule:
        return self.recipe.schedule

    @property
    def num_weights(self) -> int:
        return sum(weight.numel() for weight in self.targets.values())

    @property
    def zeros(self) -> dict[str, int]:
        """How many of each pruned tensor's weights are zero, counted now."""
        return {name: weight.numel() - int(torch.count_nonzero(weight)) for name, weight in self.targets.items()}

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

    def _share(self, zeros: int) -> float:
        return (zeros - self.num_added) / self.num_weights

    def __repr__(self) -> str:
        return f"Pruner({self.method}, step {self.t} of {self.run.total_steps}, {self.num_weights:,} weights)"

    def _repr_html_(self) -> str:
        zeros, sizes = self.zeros, {name: weight.numel() for name, weight in self.targets.items()}
        share, last = self._share(sum(zeros.values())), self.run.total_steps
        return pruner_html(to_dict(self.method), step=self.t, last=last, sparsity=share, zeros=zeros, sizes=sizes)

    # One step

    def attach(self, optimizer: Optimizer, *, hooks: bool = True) -> None:
        """Do `before_step` and `after_step` inside every `optimizer.step()`; with hooks=False only get to know it."""
        if self._optimizer is not None:
            raise RuntimeError("this pruner is attached already: it counts the steps of one optimizer")
        trained = {param for group in optimizer.param_groups for param in group["params"]}
        missing = [name for name, weight in self.targets.items() if weight not in trained]
        if missing:
            raise ValueError(
                f"{len(missing)} weights to prune are not in the optimizer, {missing[0]} the first: "
                "add them to it, freeze them, or leave them out with exclude="
            )
        late = [name for name, parameter in self.added.items() if parameter not in trained]
        if late:
            raise ValueError(
                f"{len(late)} parameters that the method added are not in the optimizer, {late[0]} the first: make the "
                "Pruner (or call mgpp.prepare(model, method)) before the optimizer, and give a PruningCallback to "
                "Trainer(callbacks=...)"
            )
        self._optimizer = optimizer
        if hooks:
            self._plan = getattr(optimizer, "plan", None)
            if self._plan is not None:
                self._plan.targets = frozenset(self.targets.values())
            self._hooks = [
                optimizer.register_step_pre_hook(self._pre_hook),
                optimizer.register_step_post_hook(self._post_hook),
            ]

    def detach(self) -> None:
        """Leave the optimizer as it was before `attach`."""
        self.settle()
        for hook in self._hooks:
            hook.remove()
        if self._plan is not None:
            self._plan.clear()
            self._plan.targets = frozenset()
        self._optimizer, self._plan, self._hooks = None, None, []

    def _pre_hook(self, optimizer: Optimizer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if any(callable(arg) for arg in (*args, *kwargs.values())):
            raise ValueError("optimizer.step(closure) computes gradients after the prior is added: step without one")
        # A fused optimizer is handed scaled gradients and told of an overflow; any other is not called at all then.
        found_inf = getattr(optimizer, "found_inf", None)
        self._overflowed = found_inf is not None and bool(found_inf)
        if not self._overflowed:
            scale = getattr(optimizer, "grad_scale", None)
            self._before_step(1.0 if scale is None else scale)

    def _post_hook(self, optimizer: Optimizer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.after_step(skipped=self._overflowed)

    @torch.no_grad()
    def before_step(self, *, grad_scale: float | Tensor | None = None) -> None:
        """Add the penalty's gradient; after clipping, before the optimizer's step.

        With a GradScaler pass the scale its gradients still carry (1.0 after `scaler.unscale_`), and tell
        `after_step` whether the scaler skipped the step. Without one, a gradient that is not finite raises.
        """
        if grad_scale is None:
            self._before_step(1.0)
        elif _are_finite([p.grad for p in self._parameters if p.grad is not None]):  # else the scaler will skip it
            self._add_penalty(grad_scale)

    @torch.no_grad()
    def _before_step(self, grad_scale: float | Tensor) -> None:
        self._require_finite_gradients()
        self._add_penalty(grad_scale)

    def _add_penalty(self, grad_scale: float | Tensor) -> None:
        t = self.t + 1
        step = self._step(t, grad_scale)
        if self._plan is not None:
            self._plan.clear()
        self.recipe.between.before_step(step)
        if self.recipe.penalty is not None:
            self.recipe.penalty.before_step(step)
        # A penalty that acts after the optimizer would change what the optimizer has counted.
        alone = self.recipe.penalty is None or (self._plan is not None and self._plan.pull is not None)
        if alone and self.schedule.is_event(t):
            self.recipe.select.ahead(step, self.recipe.score, self.schedule.sparsity_at(t))

    @torch.no_grad()
    def after_step(self, *, skipped: bool = False) -> None:
        """Count the step, and prune if the schedule says so; a step that a GradScaler skipped does not count."""
        if skipped:
            self.recipe.between.after_skip(self._step(self.t))
            return
        self.t += 1
        step = self._step(self.t)
        if self.recipe.penalty is not None:
            self.recipe.penalty.after_step(step)
        self.recipe.score.observe(step)
        self.recipe.between.after_step(step)
        if self.schedule.is_event(self.t):
            self._prune(step, self.schedule.sparsity_at(self.t))
        else:
            self._look_around(step)

    @torch.no_grad()
    def finish(self) -> None:
        """Reach the target exactly at the end of a run that skipped steps; does nothing where it is reached."""
        if self.t >= self.run.total_steps:  # every event was held, and not every method counts to a target
            return
        if sum(self.zeros.values()) < self.asked_zeros:
            self._prune(self._step(self.t), self.schedule.sparsity)

    def _step(self, t: int, grad_scale: float | Tensor = 1.0) -> Step:
        return Step(
            t=t,
            weights=list(self.targets.values()),
            memory=self.memory,
            grad_scale=grad_scale,
            optimizer=self._optimizer,
            gradients=self.gradients,
            plan=self._plan,
            scratch=self._scratch,
            added=self.num_added,
            turned=self._turned,
        )

    def _require_finite_gradients(self) -> None:
        first = next((weight.grad for weight in self.targets.values() if weight.grad is not None), None)
        if first is None or is_capturing():
            return
        if first.is_cuda:
            if self.t % WATCH_EVERY == 0:
                self._watch(f"the gradient of step {self.t + 1} is", first)
            self._look(wait=len(self._watched) > 1)
            return
        grads = [weight.grad for weight in self.targets.values() if weight.grad is not None]
        largest = float(_largest(grads))
        if not math.isfinite(largest):
            raise FloatingPointError(
                f"the gradient of step {self.t + 1} is {largest}: the step is refused and the weights are as "
                f"step {self.t} left them; lower the learning rate, clip the gradient, or look at the batch"
            )

    def _watch(self, what: str, tensor: Tensor) -> None:
        """A loss that is not finite leaves no gradient, and then no weight, finite: one number tells, on its way to the
        host while the device goes on."""
        self._watched.append((what, Arriving(tensor.flatten()[:1])))

    def _look(self, *, wait: bool) -> None:
        while self._watched and (wait or self._watched[0][1].ready()):
            what, number = self._watched.popleft()
            if not math.isfinite(number.get()[0]):
                raise FloatingPointError(
                    f"{what} not finite: the weights are lost since then, go back to the last checkpoint; lower the "
                    "learning rate, clip the gradient, or look at the batch"
                )

    def _prune(self, step: Step, sparsity: float) -> None:
        prior = self.prior_at(step.t)
        look = self._begin_look(step, prior)
        taken = self.recipe.select(step, self.recipe.score, sparsity)
        self.recipe.between.after_event(step)
        if look is not None:
            look.end()
        if taken is not None:
            promise = Taken(taken, list(self.zeros.values())) if isinstance(taken, Cut) else taken
            self._promised.append(({"event": "prune", "step": step.t, "target": sparsity, **prior}, promise, look))
            self.settle(wait=False)

    def _look_around(self, step: Step) -> None:
        if self.survey is None or step.t not in self.survey.steps:
            return
        prior = self.prior_at(step.t)
        look = self._begin_look(step, prior)
        if look is not None:
            look.end()
            self._promised.append(({"event": "look", "step": step.t, **prior}, None, look))
            self.settle(wait=False)

    def _begin_look(self, step: Step, prior: Mapping[str, float]) -> Look | None:
        if self.survey is None or is_capturing():
            return None
        return self.survey.begin(step.t, step.weights, prior.get("half_width"))

    def prior_at(self, t: int) -> dict[str, float]:
        """What the method's penalty says of itself at step t: a mixture prior its warm-up η and its half-width."""
        return {} if self.recipe.penalty is None else self.recipe.penalty.record(t)

    def settle(self, *, wait: bool = True) -> None:
        """Hand over the records of events whose numbers have arrived from the device; wait for them, unless told not
        to. On a CPU there is nothing to wait for."""
        while self._promised and (wait or all(part is None or part.ready() for part in self._promised[0][1:])):
            record, promise, look = self._promised.popleft()
            if look is not None:
                self.last_look = record["look"] = look.told()
            if promise is not None:
                record = self.last_record = self._with_numbers(record, promise)
            if self.on_record is not None:
                self.on_record(record)
        first = next(iter(self.targets.values()))
        if wait and first.is_cuda:
            self._watch(f"after step {self.t} the weights are", first.detach())
            self._look(wait=True)

    def _with_numbers(self, record: Record, promise: Promise) -> Record:
        cut, zeros = promise.cut(), dict(zip(self.targets, promise.zeros(), strict=True))
        if not math.isfinite(cut.value):
            raise FloatingPointError(
                f"after step {record['step']} the cut is {cut.value}: weights are not finite, go back to the last "
                "checkpoint; lower the learning rate, clip the gradient, or look at the batch"
            )
        return {**record, "sparsity": self._share(sum(zeros.values())), "cut": cut.value, "zeros": zeros}

    # Between sessions

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the run depends on, beside the weights and the optimizer's state."""
        self.settle()
        state = {"t": self.t, "settings": self._settings(), "memory": self.memory.state_dict()}
        return state if self.survey is None else {**state, "survey": self.survey.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken. Another method, schedule, model or run is refused, difference shown."""
        mine, theirs = self._settings(), state["settings"]
        differing = sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))
        if differing:
            shown = "; ".join(f"{key}: saved {theirs.get(key)}, now {mine.get(key)}" for key in differing)
            raise ValueError(f"the saved run is another one ({shown}): use its settings, or start anew")
        self.t = int(state["t"])
        self.memory.load_state_dict(state["memory"])
        if self.survey is not None:
            self.survey.load_state_dict(state.get("survey", {}), next(iter(self.targets.values())).device)

    def _settings(self) -> dict[str, Any]:
        return {
            **to_dict(self.method),
            "total_steps": self.run.total_steps,
            "train_size": self.run.train_size,
            "num_weights": self.num_weights,
        }


def prepare(
    model: nn.Module, method: Method, *, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> dict[str, nn.Parameter]:
    """Change the model's layers where the method needs other ones, and return the parameters that it added.

    Most methods need nothing. To be called before the optimizer is made: `Pruner(...)` does it where it was not done.
    """
    return method.prepare(unwrap(model), find_targets(model, include=include, exclude=exclude))


def _are_finite(grads: Sequence[Tensor]) -> bool:
    return not grads or math.isfinite(float(_largest(grads)))


def _largest(grads: Sequence[Tensor]) -> Tensor:
    """A number that is not finite if one of the gradients is not. A 2-norm: torch's infinity norm takes ten times as
    long on a CPU; in float32, for a half-precision norm overflows early."""
    norms = [torch.linalg.vector_norm(grad, dtype=torch.promote_types(grad.dtype, torch.float32)) for grad in grads]
    return torch.stack([norm.float().to(norms[0].device) for norm in norms]).max()
