"""Which tensors the kernels take, sorted by dtype."""

from collections.abc import Sequence

import torch
import triton.language as tl
from torch import Tensor

TRITON = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}


def supports(*lists: Sequence[Tensor]) -> bool:
    """Contiguous tensors of at most 32 bits that start on 16 bytes, all on one device."""
    tensors = [tensor for tensors in lists for tensor in tensors]
    return (
        bool(tensors)
        and len({tensor.device for tensor in tensors}) == 1
        and all(t.dtype in TRITON and t.is_contiguous() and t.data_ptr() % 16 == 0 for t in tensors)
    )


def by_dtype(*lists: Sequence[Tensor]) -> dict[tuple[torch.dtype, ...], list[int]]:
    """The positions of aligned tensors, grouped by the dtypes they have in each list."""
    groups: dict[tuple[torch.dtype, ...], list[int]] = {}
    for index, tensors in enumerate(zip(*lists, strict=True)):
        groups.setdefault(tuple(tensor.dtype for tensor in tensors), []).append(index)
    return groups
