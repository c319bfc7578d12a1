"""Numbers on their way from a device: nobody waits for them who does not ask."""

from typing import Any

import torch
from torch import Tensor

# Pinning memory and making an event take longer than the copy itself, so both are used again.
_SPARE: dict[tuple[torch.device, torch.dtype, int], list[tuple[Tensor, torch.cuda.Event]]] = {}


class Arriving:
    """A copy of `numbers` that travels to the host while the device goes on."""

    def __init__(self, numbers: Tensor) -> None:
        self._list: list[Any] | None = None
        if not numbers.is_cuda:
            self._list = numbers.tolist()
            return
        self._key = (numbers.device, numbers.dtype, numbers.numel())
        spare = _SPARE.setdefault(self._key, [])
        if spare:
            self._copy, self._event = spare.pop()
        else:
            self._copy = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
            self._event = torch.cuda.Event()
        self._copy.copy_(numbers, non_blocking=True)
        self._event.record()

    def ready(self) -> bool:
        return self._list is not None or self._event.query()

    def get(self) -> list[Any]:
        if self._list is None:
            self._event.synchronize()
            self._list = self._copy.tolist()
            _SPARE[self._key].append((self._copy, self._event))
        return self._list


def is_capturing() -> bool:
    """Is a CUDA graph being recorded? Its replays will run the same launches, and no Python."""
    # Not is_available, which asks the driver each time.
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
