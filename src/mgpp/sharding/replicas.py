"""DDP: every process has all weights and prunes by itself. They must come to the same; here it is looked at."""

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from mgpp.functional.chunks import chunks


def require_same_zeros(weights: Mapping[str, Tensor]) -> None:
    """Raise, in all processes, if one of them has other zeros than process 0. One pass over the weights."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return
    device = next(iter(weights.values())).device
    mine = torch.tensor([_places_of_zeros(weight) for weight in weights.values()])
    sent = mine.to(device if dist.get_backend() != "gloo" else "cpu", copy=True)
    dist.broadcast(sent, src=0)
    differ = (sent.cpu() != mine).to(torch.int64).to(sent.device)
    dist.all_reduce(differ)
    if differ.any():
        first = list(weights)[int(differ.nonzero()[0])]
        raise RuntimeError(
            f"processes that should hold the same weights have pruned different ones, {first} the first: something in "
            "the training is not the same in all of them, seeds, data or kernels "
            "(torch.use_deterministic_algorithms(True) names those)"
        )


def _places_of_zeros(weight: Tensor) -> int:
    """A number that tells two sets of zeros apart: the sum of the squares of their places, counted from 1."""
    total, seen = 0, 1
    for (piece,) in chunks(weight.detach()):
        places = (piece.flatten() == 0).nonzero() + seen
        total += int((places * places).sum())  # it may wrap around, in all processes alike
        seen += piece.numel()
    return (total + 2**63) % 2**64 - 2**63
