"""The toy trained by any number of processes on the same batches, and what must come out the same."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

import mgpp
from tests.test_contract import STEPS, method_of
from tests.toy import Toy, batches, rows

MOST_FLIPS = 2  # of 384 weights: those whose scores lie so near the cut that another order of sums decides
CLOSE = 1e-4  # weights after 20 steps of Adam at 1e-2; float32 gradients are summed in another order


@dataclass
class Outcome:
    """Whole tensors, whoever holds them."""

    weights: dict[str, Tensor]
    records: list[dict[str, Any]]
    sparsity: float
    zeros: dict[str, int]


def rank_and_size() -> tuple[int, int]:
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def my_batches(device: str = "cpu") -> Any:
    """This process's rows of every batch of eight."""
    rank, size = rank_and_size()
    for batch in batches(device=device):
        yield {key: value.chunk(size)[rank] for key, value in batch.items()}


def skipping(data: Any, steps: int) -> Any:
    for _ in range(steps):
        next(data)
    return data


def plain_adamw(params: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(params, lr=1e-2, weight_decay=0)


def start(
    case: str,
    model: nn.Module,
    *,
    optimizer: Callable[..., torch.optim.Optimizer] = plain_adamw,
    **settings: Any,
) -> tuple[mgpp.Pruner, torch.optim.Optimizer, list[dict[str, Any]]]:
    records: list[dict[str, Any]] = []
    sampler = mgpp.GradientSampler(model, rows(), seed=3)
    pruner = mgpp.Pruner(
        model,
        method_of(case),
        total_steps=STEPS,
        train_size=64,
        gradients=sampler,
        on_record=records.append,
        **settings,
    )
    made = optimizer(model.parameters())
    pruner.attach(made)
    return pruner, made, records


def take_steps(model: nn.Module, optimizer: torch.optim.Optimizer, data: Any, steps: int) -> None:
    for _ in range(steps):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()


def whole(tensor: Tensor) -> Tensor:
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().clone()


def outcome(model: nn.Module, pruner: mgpp.Pruner, records: list[dict[str, Any]]) -> Outcome:
    inner = model.module if hasattr(model, "module") else model
    weights = {name: whole(param).cpu() for name, param in inner.named_parameters()}
    return Outcome(weights, records, pruner.sparsity, pruner.zeros)


def train(
    case: str,
    wrap: Callable[[nn.Module], nn.Module] = lambda model: model,
    *,
    device: str = "cpu",
    make: Callable[[], nn.Module] = Toy,
    **settings: Any,
) -> Outcome:
    """All of a run."""
    model = wrap(make().to(device))
    pruner, optimizer, records = start(case, model, **settings)
    take_steps(model, optimizer, my_batches(device), STEPS)
    pruner.settle()
    return outcome(model, pruner, records)


def only_prune(wrap: Callable[[nn.Module], nn.Module] = lambda model: model) -> dict[str, Tensor]:
    """Weights of nine sizes, nearly all of them tied, pruned at 20 events and moved by nothing else."""
    model = Toy()
    for param in model.parameters():
        param.data.mul_(8).round_().clamp_(-8, 8).div_(8)
    model = wrap(model)
    _, optimizer, _ = start("gmp", model, optimizer=lambda params: torch.optim.SGD(params, lr=0.0))
    take_steps(model, optimizer, my_batches(), STEPS)
    return {name: whole(param) for name, param in model.named_parameters()}


def assert_same(actual: Outcome, expected: Outcome) -> None:
    """The same mask, but for MOST_FLIPS, the same weights, but for CLOSE, and the same story."""
    flips = 0
    for name, weight in expected.weights.items():
        both = (actual.weights[name] == 0) == (weight == 0)
        flips += int((~both).sum())
        torch.testing.assert_close(actual.weights[name][both], weight[both], rtol=0, atol=CLOSE, msg=name)
    assert flips <= MOST_FLIPS
    assert [record["step"] for record in actual.records] == [record["step"] for record in expected.records]
    assert [record["target"] for record in actual.records] == [record["target"] for record in expected.records]
    assert actual.sparsity == expected.sparsity
    for record in actual.records:
        assert record["sparsity"] == sum(record["zeros"].values()) / 384
    assert actual.records[-1]["zeros"] == actual.zeros
