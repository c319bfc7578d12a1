"""Selection over shards finds the same cut by its band as the readable one by all digits, and sends only counts."""

import pytest
import torch
from torch import Tensor

from mgpp.functional import score as scores
from mgpp.functional.ranks import Ranks
from mgpp.functional.select import zero_smallest_
from mgpp.kernels import zero_smallest_ as fast_zero_smallest_
from tests.ranks import on_ranks

SHAPES = [(64, 48), (7, 3), (1, 1), (128, 64)]


def drawn(seed: int, device: torch.device) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(device) for shape in SHAPES]


def rows_of(tensors: list[Tensor], rank: int, size: int) -> list[Tensor]:
    """As FSDP2 cuts: the last ranks have fewer rows, or none."""
    parts = [tensor.chunk(size) for tensor in tensors]
    return [part[rank].clone() if rank < len(part) else part[0][:0] for part in parts]


class Counting:
    """How many numbers a rank has sent."""

    def __init__(self, ranks: Ranks) -> None:
        self.sent: list[int] = []
        self.ranks = Ranks(rank=ranks.rank, size=ranks.size, sum_=lambda counts: self._sum_(ranks, counts))

    def _sum_(self, ranks: Ranks, counts: Tensor) -> None:
        assert counts.dtype == torch.int64
        self.sent.append(counts.numel())
        ranks.sum_(counts)


@pytest.mark.parametrize("size", [2, 4, 5])
@pytest.mark.parametrize("kernel", ["magnitude", "product"])
def test_event_after_event_the_shards_lose_what_the_whole_would(size, kernel, device):
    events, weights, other = 6, drawn(0, device), [tensor.abs() for tensor in drawn(1, device)]
    total = sum(weight.numel() for weight in weights)
    # The target moves, then stands still; the cut moves a little, then leaps out of its band.
    wanted = [int(share * total) for share in (0.2, 0.5, 0.5, 0.5, 0.5, 0.9)]
    drift = [1.0, 1.0, 1.0 + 1e-4, 1.001, 3.0, 1.0]

    def score(weight: Tensor, *beside: Tensor) -> Tensor:
        return scores.magnitude(weight) if kernel == "magnitude" else beside[0] * beside[1]

    def prune(mine: list[Tensor], beside: list[Tensor], ranks: Ranks | None) -> list:
        scratch: dict = {}
        cuts = []
        for k, factor in zip(wanted, drift, strict=True):
            for tensor in (*mine, *beside):
                tensor.mul_(factor)
            inputs = None if kernel == "magnitude" else [(extra, extra) for extra in beside]
            if ranks is None:
                cuts.append(zero_smallest_(mine, k, score=score, inputs=inputs))
            else:
                taken = fast_zero_smallest_(
                    mine, k, score=score, inputs=inputs, kernel=kernel, ranks=ranks, scratch=scratch
                )
                cuts.append(taken.cut())
                assert sum(taken.zeros()) == k
        return cuts

    shards = [(rows_of(weights, rank, size), rows_of(other, rank, size)) for rank in range(size)]
    cuts = on_ranks(size, lambda ranks: prune(*shards[ranks.rank], ranks))
    expected = prune(weights, other, None)
    assert len(expected) == events
    assert cuts == [expected] * size
    for i, weight in enumerate(weights):
        together = torch.cat([mine[i] for mine, _ in shards])
        torch.testing.assert_close(together, weight, rtol=0, atol=0)


def test_a_cut_near_the_last_costs_one_pass_and_what_is_sent_does_not_grow_with_the_weights(device):
    def prune(ranks: Ranks) -> list[int]:
        counting, scratch = Counting(ranks), {}
        mine = rows_of(drawn(0, device), ranks.rank, ranks.size)
        passes = []

        def watched(weight: Tensor) -> Tensor:
            passes.append(weight.numel())
            return weight.abs()

        for _ in range(2):
            passes.clear()
            counting.sent.clear()
            fast_zero_smallest_(mine, 6000, score=watched, kernel="magnitude", ranks=counting.ranks, scratch=scratch)
        # Once over all of it; beside that only nothing at all, to see the score's dtype. On a GPU zeroing scores again.
        once = 1 if device.type == "cpu" else 2
        assert sum(passes) == once * sum(weight.numel() for weight in mine)
        return counting.sent

    for sent in on_ranks(2, prune):
        assert sum(sent) <= 2 + 2 * 2048 + 1024 + 2 * len(SHAPES)


def test_ranks_without_a_single_weight_take_part(device):
    weights = [torch.tensor([[3.0, 1.0], [2.0, 5.0]], device=device)]
    parts = [rows_of(weights, rank, 4) for rank in range(4)]
    assert [part[0].numel() for part in parts] == [2, 2, 0, 0]
    on_ranks(4, lambda ranks: fast_zero_smallest_(parts[ranks.rank], 2, ranks=ranks, scratch={}))
    assert torch.cat([part[0] for part in parts]).tolist() == [[3.0, 0.0], [0.0, 5.0]]
