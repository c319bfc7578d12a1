"""What events did, told when their numbers have arrived: on a GPU they travel while the device goes on."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mgpp.kernels import Promise
from mgpp.survey import Look

Record = dict[str, Any]

# Events of a GPU whose numbers are looked at in one go: one by one they take the host more than twice as long.
TOGETHER = 8


class Account:
    """Records in their order, each handed to `on_record` once. `share` turns a number of zeros into a sparsity."""

    def __init__(
        self, names: Sequence[str], share: Callable[[int], float], on_record: Callable[[Record], None] | None
    ) -> None:
        self.names, self.share, self.on_record = names, share, on_record
        self.last_record: Record | None = None
        self.last_look: Record | None = None
        self._waiting: deque[tuple[Record, Promise | None, Look | None]] = deque()

    def add(self, record: Record, promise: Promise | None, look: Look | None) -> None:
        self._waiting.append((record, promise, look))
        if len(self._waiting) == 1 or len(self._waiting) >= TOGETHER:  # a CPU's are there, and none is left waiting
            self.settle(wait=False)

    def settle(self, *, wait: bool) -> None:
        """Tell what has arrived, or wait for all of it."""
        while self._waiting and (wait or all(part is None or part.ready() for part in self._waiting[0][1:])):
            record, promise, look = self._waiting.popleft()
            if look is not None:
                self.last_look = record["look"] = look.told()
            if promise is not None:
                record = self.last_record = self._with_numbers(record, promise)
            if self.on_record is not None:
                self.on_record(record)

    def _with_numbers(self, record: Mapping[str, Any], promise: Promise) -> Record:
        cut, zeros = promise.cut(), dict(zip(self.names, promise.zeros(), strict=True))
        if not math.isfinite(cut.value):
            raise FloatingPointError(
                f"after step {record['step']} the cut is {cut.value}: weights are not finite, go back to the last "
                "checkpoint; lower the learning rate, clip the gradient, or look at the batch"
            )
        return {**record, "sparsity": self.share(sum(zeros.values())), "cut": cut.value, "zeros": zeros}
