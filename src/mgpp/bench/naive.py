"""How the released code of this field prunes, written out to be measured: one op after another, and kthvalue."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mgpp.functional.prior import spike_probability

PAPER = {"slab_prob": 1e-7, "spike_var": 1e-10, "slab_var": 0.05}


class NaivePruner:
    """MGPP by eager per-tensor arithmetic and a threshold over the concatenation of all scores."""

    def __init__(self, weights: Sequence[nn.Parameter], *, sparsity: float, train_size: int, threshold: str) -> None:
        self.weights, self.train_size, self.threshold = list(weights), train_size, threshold
        self.k = int(sparsity * sum(weight.numel() for weight in weights))

    @torch.no_grad()
    def before_step(self) -> None:
        for weight in self.weights:
            assert weight.grad is not None
            in_spike = spike_probability(weight, **PAPER)
            pull = weight / PAPER["spike_var"] * in_spike + weight / PAPER["slab_var"] * (1 - in_spike)
            weight.grad += pull / self.train_size

    @torch.no_grad()
    def after_step(self) -> None:
        threshold = cut_of(self.weights, self.k, self.threshold)
        for weight in self.weights:
            weight.masked_fill_(weight.abs() <= threshold, 0.0)


def cut_of(weights: Sequence[Tensor], k: int, way: str) -> Tensor:
    scores = torch.cat([weight.detach().abs().flatten() for weight in weights])
    if way == "kthvalue":
        return torch.kthvalue(scores, k).values
    if way == "sort":
        return scores.sort().values[k - 1]
    return scores.topk(scores.numel() - k + 1, sorted=False).values.min()
