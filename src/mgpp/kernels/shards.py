"""Selection over weights whose parts lie with several processes. Twin: mgpp.functional.select.zero_smallest_.

After the ramp the cut hardly moves, and a narrow band around the last holds it. One pass counts what lies under the
band and gathers what lies inside, a few thousand values of millions; among those the cut is found digit by digit. Only
counts are sent, some 50 KB an event whatever the model's size. A cut that is not in the band is found by the full radix
select.

Every branch is taken on numbers that all processes have summed up: all take the same one.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from mgpp.functional.chunks import chunks
from mgpp.functional.mask import zeros_of_each
from mgpp.functional.ranks import Ranks
from mgpp.functional.select import Cut, Score, find_cut, score_dtype, zero_below_
from mgpp.kernels import cpu
from mgpp.kernels.cpu import LEAST_BAND, MOST_BAND, Taken


def zero_smallest_(
    weights: Sequence[Tensor],
    k: int,
    *,
    score: Score,
    inputs: Sequence[Sequence[Tensor]] | None,
    by_size: bool,
    ranks: Ranks,
    scratch: dict[str, Any],
) -> Taken:
    """Zero the k weights of smallest score over all ranks. `by_size`: `score` is |w|."""
    beside = inputs if inputs is not None else [()] * len(weights)
    dtype = score_dtype(weights, score, inputs)

    def walk() -> Iterator[Tensor]:
        for tensors in zip(weights, beside, strict=True):
            for piece in chunks(tensors[0], *tensors[1]):
                yield score(*piece).to(dtype)

    near, move = scratch.get("cut", (0.0, LEAST_BAND))
    cut = _find_near(walk(), k, near, 4 * move, dtype, ranks) if near > 0 else None
    if cut is None:
        cut = find_cut(walk, k, dtype=dtype, ranks=ranks)
    if by_size and cut.ties == 0 and cpu.supports(weights):
        cpu.zero_under_(weights, cut.value)
    else:
        zero_below_(weights, cut, score=score, inputs=inputs, ranks=ranks)
    scratch["cut"] = (cut.value, abs(cut.value - near) / cut.value if near > 0 and cut.value > 0 else LEAST_BAND)
    return Taken(cut, zeros_of_each(weights, ranks).tolist())


def _find_near(
    scores: Iterable[Tensor], k: int, near: float, width: float, dtype: torch.dtype, ranks: Ranks
) -> Cut | None:
    """The cut under which k scores lie, if it is inside the band around `near`."""
    width = min(max(width, LEAST_BAND), MOST_BAND)
    low, high = near * (1 - width), near * (1 + width)
    below: list[Tensor] = []
    inside: list[Tensor] = []
    for score in scores:
        under, up_to = score < low, score < high
        below.append(torch.count_nonzero(under))
        inside.append(score[under ^ up_to])
    # Added up where they are, and brought to the host once.
    under_all = int(torch.stack([count.to(below[0].device) for count in below]).sum()) if below else 0
    counts = torch.tensor([under_all, sum(found.numel() for found in inside)])
    ranks.sum_(counts)
    under_all, inside_all = counts.tolist()
    if not 0 <= k - under_all < inside_all:
        return None
    cut = find_cut(lambda: inside, k - under_all, dtype=dtype, ranks=ranks)
    return Cut(value=cut.value, below=under_all + cut.below, ties=cut.ties)
