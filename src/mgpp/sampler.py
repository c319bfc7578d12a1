"""Gradients beside those of the training, taken without disturbing it."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from mgpp.targets import unwrap


class GradientSampler:
    """Gradients of the model's own loss over rows of `dataset`, in eval mode, for `Pruner(gradients=...)`.

    A batch is what `collate` makes of rows, a dict, and `model(**batch)` returns its loss as `.loss` or `["loss"]`.
    Which rows are taken depends on `seed` and the step alone. The model's mode and every random number generator are
    as before between two gradients, so training goes on as if none had been taken.
    """

    def __init__(
        self,
        model: nn.Module,
        dataset: Any,
        *,
        collate: Callable[[list[Any]], Mapping[str, Any]] = default_collate,
        seed: int = 0,
    ) -> None:
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise ValueError(
                f"{type(dataset).__name__} cannot be asked for a row by number: give a data set with a length"
            )
        if len(dataset) == 0:
            raise ValueError("the data set is empty: gradients are sampled from its rows")
        self.model = unwrap(model)
        self.dataset = dataset
        self.collate = collate
        self.seed = seed

    def __call__(self, weights: Sequence[Tensor], *, count: int, batch_size: int, step: int) -> Iterator[list[Tensor]]:
        mixed = (self.seed * 1_000_003 + step) % 2**31
        for i, rows in enumerate(self._rows(count, batch_size, mixed)):
            with _undisturbed(self.model, seed=mixed + i), torch.enable_grad():
                grads = self._gradients(weights, self.collate(self._read(rows)))
            yield grads

    def _rows(self, count: int, batch_size: int, seed: int) -> Iterator[list[int]]:
        """Every row once before any row twice."""
        generator = torch.Generator().manual_seed(seed)
        waiting: list[int] = []
        for _ in range(count):
            while len(waiting) < batch_size:
                waiting += torch.randperm(len(self.dataset), generator=generator).tolist()
            yield waiting[:batch_size]
            del waiting[:batch_size]

    def _read(self, rows: list[int]) -> list[Any]:
        if hasattr(self.dataset, "__getitems__"):
            return self.dataset.__getitems__(rows)
        return [self.dataset[row] for row in rows]

    def _gradients(self, weights: Sequence[Tensor], batch: Mapping[str, Any]) -> list[Tensor]:
        if not isinstance(batch, Mapping):
            raise TypeError(f"the collate function made a {type(batch).__name__}: a batch is a dict for model(**batch)")
        output = self.model(**_moved(batch, next(self.model.parameters()).device))
        loss = output["loss"] if isinstance(output, Mapping) and "loss" in output else getattr(output, "loss", None)
        if loss is None:
            raise ValueError(f"the model gave no loss for a batch of {', '.join(batch)}: its rows need labels")
        # Unused weights get zeros: they may hang on a branch that this batch does not take.
        return list(torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True))


@contextmanager
def _undisturbed(model: nn.Module, *, seed: int) -> Iterator[None]:
    """Eval mode, and random numbers of their own: a collate function may draw some."""
    training = [module for module in model.modules() if module.training]
    python, numpy = random.getstate(), np.random.get_state()
    # All devices: manual_seed seeds all of them.
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            model.eval()
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
            for module in training:
                module.training = True


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _moved(inner, device) for key, inner in value.items()}
    return value
