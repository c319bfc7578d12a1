"""The one driver of a training step: counts steps, adds the penalty, prunes on schedule, and says what it did."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from mgpp.methods import Method, to_dict
from mgpp.methods.ramp import Schedule
from mgpp.methods.recipe import Memory, Step
from mgpp.methods.times import Run
from mgpp.targets import find_targets

Record = dict[str, Any]


class Pruner:
    """Prunes `model` with `method` over a run of `total_steps` optimizer steps.

    `pruner.attach(optimizer)` does everything inside `optimizer.step()`. Without it, call `before_step()` after
    clipping and `after_step()` after the optimizer's step. `train_size` is the number of training examples in the
    whole data set (features, for chunked tasks); `on_record` is called with a dict at every pruning event.
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
        on_record: Callable[[Record], None] | None = None,
    ) -> None:
        self.method = method
        self.run = Run(total_steps=total_steps, steps_per_epoch=steps_per_epoch, train_size=train_size)
        self.recipe = method.recipe(self.run)
        self.targets: dict[str, nn.Parameter] = find_targets(model, include=include, exclude=exclude)
        self.memory = Memory(self.targets)
        self.on_record = on_record
        self.t = 0
        self.last_record: Record | None = None
        self._optimizer: Optimizer | None = None
        self._groups: dict[Tensor, dict[str, Any]] = {}
        self._hooks: list[RemovableHandle] = []
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
        """The fraction of prunable weights that is zero, counted now."""
        return sum(self.zeros.values()) / self.num_weights

    def __repr__(self) -> str:
        return f"Pruner({self.method}, step {self.t} of {self.run.total_steps}, {self.num_weights:,} weights)"

    # One step

    def attach(self, optimizer: Optimizer, *, hooks: bool = True) -> None:
        """Do `before_step` and `after_step` inside every `optimizer.step()`; with hooks=False only get to know it."""
        if self._optimizer is not None:
            raise RuntimeError("this pruner is attached already: it counts the steps of one optimizer")
        groups = {param: group for group in optimizer.param_groups for param in group["params"]}
        missing = [name for name, weight in self.targets.items() if weight not in groups]
        if missing:
            raise ValueError(
                f"{len(missing)} weights to prune are not in the optimizer, {missing[0]} the first: "
                "add them to it, freeze them, or leave them out with exclude="
            )
        self._optimizer, self._groups = optimizer, groups
        if hooks:
            self._hooks = [
                optimizer.register_step_pre_hook(self._pre_hook),
                optimizer.register_step_post_hook(self._post_hook),
            ]

    def detach(self) -> None:
        """Leave the optimizer as it was before `attach`."""
        for hook in self._hooks:
            hook.remove()
        self._optimizer, self._groups, self._hooks = None, {}, []

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
        else:
            self._add_penalty(grad_scale)

    @torch.no_grad()
    def _before_step(self, grad_scale: float | Tensor) -> None:
        self._require_finite_gradients()
        self._add_penalty(grad_scale)

    def _add_penalty(self, grad_scale: float | Tensor) -> None:
        step = self._step(self.t + 1, grad_scale)
        self.recipe.between.before_step(step)
        if self.recipe.penalty is not None:
            self.recipe.penalty.before_step(step)

    @torch.no_grad()
    def after_step(self, *, skipped: bool = False) -> None:
        """Count the step, and prune if the schedule says so; a step that a GradScaler skipped does not count."""
        if skipped:
            return
        self.t += 1
        step = self._step(self.t)
        if self.recipe.penalty is not None:
            self.recipe.penalty.after_step(step)
        self.recipe.score.observe(step)
        self.recipe.between.after_step(step)
        if self.schedule.is_event(self.t):
            self._prune(step, self.schedule.sparsity_at(self.t))

    @torch.no_grad()
    def finish(self) -> None:
        """Reach the target exactly at the end of a run that skipped steps; does nothing where it is reached."""
        asked = int(self.schedule.sparsity * self.num_weights)
        if sum(self.zeros.values()) < asked:
            self._prune(self._step(self.t), self.schedule.sparsity)

    def _step(self, t: int, grad_scale: float | Tensor = 1.0) -> Step:
        return Step(
            t=t,
            weights=list(self.targets.values()),
            memory=self.memory,
            grad_scale=grad_scale,
            optimizer=self._optimizer,
            groups=self._groups,
        )

    def _require_finite_gradients(self) -> None:
        grads = [weight.grad for weight in self.targets.values() if weight.grad is not None]
        largest = nn.utils.get_total_norm(grads, norm_type=float("inf"))
        if not torch.isfinite(largest):
            raise FloatingPointError(
                f"the gradient of step {self.t + 1} is {float(largest)}: the step is refused and the weights are as "
                f"step {self.t} left them; lower the learning rate, clip the gradient, or look at the batch"
            )

    def _prune(self, step: Step, sparsity: float) -> None:
        cut = self.recipe.select(step, self.recipe.score, sparsity)
        self.recipe.between.after_event(step)
        zeros = self.zeros
        self.last_record = {
            "event": "prune",
            "step": step.t,
            "target": sparsity,
            "sparsity": sum(zeros.values()) / self.num_weights,
            "cut": cut.value,
            **(self.recipe.penalty.record(step.t) if self.recipe.penalty is not None else {}),
            "zeros": zeros,
        }
        if self.on_record is not None:
            self.on_record(self.last_record)

    # Between sessions

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the run depends on, beside the weights and the optimizer's state."""
        return {"t": self.t, "settings": self._settings(), "memory": self.memory.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken. Another method, schedule, model or run is refused, difference shown."""
        mine, theirs = self._settings(), state["settings"]
        differing = sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))
        if differing:
            shown = "; ".join(f"{key}: saved {theirs.get(key)}, now {mine.get(key)}" for key in differing)
            raise ValueError(f"the saved run is another one ({shown}): use its settings, or start anew")
        self.t = int(state["t"])
        self.memory.load_state_dict(state["memory"])

    def _settings(self) -> dict[str, Any]:
        return {
            **to_dict(self.method),
            "total_steps": self.run.total_steps,
            "train_size": self.run.train_size,
            "num_weights": self.num_weights,
        }
