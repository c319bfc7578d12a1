"""Processes played by threads: they sum their counts as processes would, and cost nothing to start."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from torch import Tensor

from mgpp.functional.ranks import Ranks

T = TypeVar("T")


def on_ranks(size: int, act: Callable[[Ranks], T]) -> list[T]:
    """What `act` returns on each of `size` ranks."""
    barrier = threading.Barrier(size, timeout=30)
    posted: dict[int, Tensor] = {}

    def on(rank: int) -> T:
        def sum_(counts: Tensor) -> None:
            posted[rank] = counts.clone()
            barrier.wait()
            total = sum(posted[other] for other in range(size))
            barrier.wait()  # nobody posts anew before all have read
            counts.copy_(total)

        try:
            return act(Ranks(rank=rank, size=size, sum_=sum_))
        except BaseException:
            barrier.abort()  # the others must not wait for one who has failed
            raise

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(on, range(size)))
