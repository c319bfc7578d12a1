"""Numbers that are no longer finite, noticed before they do harm, or as soon after as looking costs little."""

import math
from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mgpp.functional.ranks import ALONE, Ranks
from mgpp.kernels import Arriving, cpu, is_capturing, passes

WATCH_EVERY = 8  # steps, on a GPU: looking at a number there costs the host 0.1 ms

CURE = "lower the learning rate, clip the gradient, or look at the batch"

# In a row. A GradScaler halves its scale at each, from 2¹⁶: what overflows after so many does so at any scale.
MOST_SKIPS = 50


class Watch:
    """On a CPU every gradient is looked at before the step. On a GPU one number of it travels to the host while the
    device goes on: a loss that is not finite leaves no gradient, and then no weight, finite."""

    def __init__(self) -> None:
        self._travelling: deque[tuple[str, Arriving]] = deque()

    def before_step(self, weights: Sequence[Tensor], t: int, ranks: Ranks, *, others: Sequence[Tensor] = ()) -> None:
        """Refuse the step after t, if a gradient is not finite in any of the processes that share the weights.

        `others` are trained and not pruned. Their gradients may overflow alone, and spoil the rest a step later;
        clipping hides that, for it then sets every finite gradient to zero.
        """
        if is_capturing():
            return
        if weights and weights[0].is_cuda and t % WATCH_EVERY:
            self._look(wait=False)
            return
        grads = [weight.grad for weight in weights if weight.grad is not None and weight.numel()]
        if weights and weights[0].is_cuda:
            if grads:
                self._send(f"the gradient of step {t + 1} is", grads[0])
            self._look(wait=len(self._travelling) > 1)
            return
        grads += [_local(other.grad) for other in others if other.grad is not None]
        largest = largest_of(grads)
        if not is_finite(largest, ranks):
            found = "not finite in another process" if math.isfinite(largest) else str(largest)
            raise FloatingPointError(
                f"the gradient of step {t + 1} is {found}: the step is refused and the weights are as step {t} left "
                f"them; {CURE}"
            )

    def settle(self, weights: Sequence[Tensor], t: int) -> None:
        """Wait for what is on its way, and for the weights as they are now."""
        first = next((weight for weight in weights if weight.numel()), None)
        if first is not None and first.is_cuda:
            self._send(f"after step {t} the weights are", first.detach())
            self._look(wait=True)

    def _send(self, what: str, tensor: Tensor) -> None:
        self._travelling.append((what, Arriving(tensor.flatten()[:1])))

    def _look(self, *, wait: bool) -> None:
        while self._travelling and (wait or self._travelling[0][1].ready()):
            what, number = self._travelling.popleft()
            if not math.isfinite(number.get()[0]):
                raise FloatingPointError(
                    f"{what} not finite: the weights are lost since then, go back to the last checkpoint; {CURE}"
                )


class Skips:
    """Steps in a row that were not taken: a GradScaler skips those whose gradients overflow, and never gives up."""

    def __init__(self) -> None:
        self._taken = -1
        self._skipped = 0

    def count(self, taken: int) -> None:
        """After every step of the training, with the number of those that the optimizer has taken."""
        self._skipped = self._skipped + 1 if taken == self._taken else 0
        self._taken = taken
        if self._skipped >= MOST_SKIPS:
            raise FloatingPointError(
                f"the last {MOST_SKIPS} steps were skipped, for their gradients are not finite at any scale: the "
                "weights are as the last good step left them; train in bf16 or fp32, lower the learning rate, or look "
                "at the batch"
            )


def require_finite(model: nn.Module, t: int, ranks: Ranks = ALONE) -> None:
    """Refuse to save weights of which one is not finite: the last good checkpoint must stay the last."""
    broken = first_broken(model)
    if not is_finite(math.nan if broken else 0.0, ranks):
        raise FloatingPointError(
            f"after step {t} {broken or 'a weight in another process'} is not finite: the weights are lost, go back to "
            f"the last checkpoint; {CURE}"
        )


def first_broken(model: nn.Module) -> str | None:
    """The name of a parameter with a number that is not finite, of those that this process holds."""
    for name, parameter in model.named_parameters():
        held = _local(parameter.detach())
        if (held.is_floating_point() or held.is_complex()) and not math.isfinite(largest_of([held])):
            return name
    return None


def _local(tensor: Tensor) -> Tensor:
    """What this process has of it."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def is_finite(largest: float, ranks: Ranks) -> bool:
    """In all processes, where each has only a part."""
    broken = torch.tensor([0 if math.isfinite(largest) else 1])
    ranks.sum_(broken)
    return not broken.any()


def largest_of(grads: Sequence[Tensor]) -> float:
    """The size of the largest number, or of one that is not finite if there is such. Compiled, 0 for finite ones."""
    grads = [_numbers(grad) for grad in grads]
    compiled = passes.compiled() if cpu.supports(grads) else None
    if compiled is not None:
        return compiled.worst(grads)
    bounds = [bound for grad in grads if grad.numel() for bound in _bounds(grad)]
    # A float64 may be past the range of float32. Not every device has them.
    dtype = torch.float64 if any(bound.dtype == torch.float64 for bound in bounds) else torch.float32
    return float(torch.stack([bound.to(bounds[0].device, dtype) for bound in bounds]).abs().max()) if bounds else 0.0


def _numbers(grad: Tensor) -> Tensor:
    """Of a sparse gradient those that it has, summed as the optimizer will; of complex ones both parts; those of eight
    bits, of which torch knows no least and greatest, in float32."""
    grad = grad.coalesce().values() if grad.layout == torch.sparse_coo else grad
    grad = torch.view_as_real(grad.resolve_conj()) if grad.is_complex() else grad
    return grad.float() if grad.itemsize == 1 else grad


def _bounds(grad: Tensor) -> tuple[Tensor, Tensor]:
    """The least and the greatest, without memory: of numbers that are not contiguous aminmax would make a copy."""
    return grad.aminmax() if grad.is_contiguous() else (grad.amin(), grad.amax())
