"""Numbers on their way from a device: nobody waits for them who does not ask."""

import torch
from torch import Tensor


class Arriving:
    """A copy of `numbers` that travels to the host while the device goes on."""

    def __init__(self, numbers: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        if numbers.is_cuda:
            self._copy = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
            self._copy.copy_(numbers, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()
        else:
            self._copy = numbers.clone()

    def ready(self) -> bool:
        return self._event is None or self._event.query()

    def get(self) -> Tensor:
        if self._event is not None:
            self._event.synchronize()
        return self._copy


def is_capturing() -> bool:
    """Is a CUDA graph being recorded? Its replays will run the same launches, and no Python."""
    # Not is_available, which asks the driver each time.
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
