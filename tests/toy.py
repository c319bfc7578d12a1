"""A model small enough to watch every weight: a stack of linear blocks with a head outside it."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn


class Toy(nn.Module):
    """`blocks` is the body that is pruned (2 × (12·8 + 8·12) = 384 weights); `head` and the norms are not."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 8), nn.LayerNorm(8)) for _ in range(2)
        )
        self.head = nn.Linear(8, 3)
        for param in self.parameters():
            param.data = torch.randn(param.shape, generator=generator) * 0.3

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        for block in self.blocks:
            x = x + block(x)
        logits = self.head(x)
        if labels is None:
            return {"logits": logits}
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Experts(nn.Module):
    """Three of them, so that two processes hold unlike parts; each sees every row."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(3, 4, 8, generator=generator) * 0.3)
        self.down = nn.Parameter(torch.randn(3, 8, 4, generator=generator) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        inner = nn.functional.gelu(torch.einsum("bi,eoi->ebo", x, self.up))
        return torch.einsum("ebo,eio->bi", inner, self.down)


class ToyOfExperts(Toy):
    """The second block's 192 weights are two stacks of matrices."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.blocks[1] = nn.Sequential(Experts(torch.Generator().manual_seed(seed + 1)), nn.LayerNorm(8))


NUM_WEIGHTS = 384


def rows(count: int = 64, seed: int = 1) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 8, generator=generator)
    labels = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return [{"x": a, "labels": b} for a, b in zip(x, labels, strict=True)]


def batches(size: int = 8, seed: int = 1, device: str | torch.device = "cpu") -> Iterator[dict[str, Tensor]]:
    """The same rows, in order, over and over."""
    data = rows(seed=seed)
    while True:
        for i in range(0, len(data), size):
            part = data[i : i + size]
            yield {key: torch.stack([row[key] for row in part]).to(device) for key in part[0]}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def assert_identical(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, rtol=0, atol=0, msg=name)
