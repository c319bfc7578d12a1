"""Walking over plain tensors on a CPU with buffers beside them, which every operation writes to again.

Every call costs the same, so the pieces are as large as less than 1 MiB allows.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

ROOM = 3 << 16  # float32 numbers of all buffers together, 768 KiB


def buffers(count: int, tensors: Sequence[Tensor]) -> Tensor:
    """As many as `count`, a row each, for the pieces of these tensors."""
    most = max((tensor.numel() for tensor in tensors), default=0)
    return torch.empty(count, max(1, min(ROOM // count, most)), dtype=torch.float32)


def pieces(beside: Tensor, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Aligned views of contiguous tensors of one shape, as long as the buffers at most, and of the buffers beside; all
    of one length but the last, for to make a view takes a few microseconds too."""
    size = tensors[0].numel()
    if size == 0:
        return
    length = math.ceil(size / math.ceil(size / beside.shape[1]))
    rooms: tuple[Tensor, ...] = ()
    for views in zip(*(tensor.view(-1).split(length) for tensor in tensors), strict=True):
        if not rooms or len(rooms[0]) != len(views[0]):
            rooms = beside[:, : len(views[0])].unbind()
        yield *views, *rooms
