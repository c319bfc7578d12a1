"""Which numbers of a tensor are kept: one bit each.

Bit i of byte j (the least significant is bit 0) stands for number 8j + i of the tensor in row-major order; 1 is kept.
The bits left over in the last byte are 0.
"""

import numpy as np
import torch
from torch import Tensor

# Numbers unpacked at a time: what is needed beside the result stays at a megabyte or two, whatever the tensor.
STRETCH = 1 << 18

_ONES = np.unpackbits(np.arange(256, dtype=np.uint8).reshape(-1, 1), axis=1).sum(axis=1, dtype=np.uint8)


def mask_bytes(count: int) -> int:
    return -(-count // 8)


def pack_mask(keep: Tensor) -> Tensor:
    """Booleans of any shape as uint8, eight to a byte."""
    flat = keep.detach().cpu().contiguous().reshape(-1).numpy()
    return torch.from_numpy(np.packbits(flat, bitorder="little"))


def unpack_mask(mask: Tensor, count: int, *, start: int = 0) -> Tensor:
    """`count` bits from bit `start` on, as booleans."""
    first, skip = divmod(start, 8)
    part = mask[first : first + mask_bytes(skip + count)].numpy()
    bits = np.unpackbits(part, count=skip + count, bitorder="little")[skip:]
    return torch.from_numpy(bits.view(np.bool_))


def count_kept(mask: Tensor) -> int:
    return int(_ONES[mask.numpy()].sum(dtype=np.int64))


def spare_bits(mask: Tensor, count: int) -> int:
    """What stands in the bits after the last number: 0 in a mask that `pack_mask` made."""
    return int(mask[-1]) >> (count % 8) if count % 8 else 0


def spread(mask: Tensor, values: Tensor, count: int, *, start: int = 0) -> tuple[Tensor, int]:
    """`count` numbers from number `start` on, zeros where the mask keeps none; and how many of `values` they took.

    `values` go, in order, to where the mask says kept. They are of an integer type: floats come as their bits.
    """
    # Positions rather than the booleans themselves: numpy is half as fast again with them.
    at = np.flatnonzero(unpack_mask(mask, count, start=start).numpy())
    out = np.zeros(count, dtype=values.numpy().dtype)
    out[at] = values.numpy()[: len(at)]
    return torch.from_numpy(out), len(at)
