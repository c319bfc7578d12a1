"""Many tensors' sizes, laid out so that one launch can walk over all of them.

A launch over 72 matrices costs 72 launches when it is written per tensor; here every program finds its own tensor by
a search in a small table, and the tensors stay where they are.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

TRITON = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
READABLE = {**TRITON, torch.bool: tl.int8}  # masks are read beside numbers, and never counted or scored

LEAST_CHUNK = 8192
BLOCK = 1024  # with 4 warps: the fastest of the sizes tried on an H200 for every kernel here
EACH = 8  # values of a block for each lane
# Programs a multiprocessor. More than run at once, so that others read where one seeks its next chunk; fewer where most
# launches return at once, since to start them is then all that they cost.
OFTEN, SELDOM = 64, 8
# Selection keeps one counter a chunk: 65,536 of them are 256 KiB, whatever the model's size.
MOST_CHUNKS = 1 << 16
MOST_CHUNK = 1 << 27  # each of 128 lanes counts its share of a program's chunks in 21 bits

_EACH = tl.constexpr(EACH)


class Table:
    """The sizes of tensors, cut into chunks that programs take one after another."""

    def __init__(self, sizes: Sequence[int], device: torch.device, chunk: int | None = None) -> None:
        self.device = device
        self.sizes_on_host = list(sizes)
        self.chunk = chunk or LEAST_CHUNK
        while sum(-(-size // self.chunk) for size in sizes) > MOST_CHUNKS and self.chunk < min(max(sizes), MOST_CHUNK):
            self.chunk *= 2
        first = [0]
        for size in sizes:
            first.append(first[-1] + -(-size // self.chunk))
        self.chunks = first[-1]
        self.sizes = torch.tensor(sizes, dtype=torch.int64, device=device)
        self.first_chunk = torch.tensor(first, dtype=torch.int32, device=device)
        self._multiprocessors = _multiprocessors(device)

    def programs(self, per_multiprocessor: int = OFTEN) -> int:
        """Each takes chunk after chunk."""
        return max(1, min(self.chunks, int(self._multiprocessors * per_multiprocessor)))


def _multiprocessors(device: torch.device) -> float:
    if device.type != "cuda":
        return 1 / 4  # so that there are several programs in the interpreter, and few
    return torch.cuda.get_device_properties(device).multi_processor_count


def span_of(table: Table) -> int:
    """How far a program may count by lane, in eight bits, before it must add up: 64 blocks."""
    return min(table.chunk, 64 * BLOCK)


@triton.jit
def find_tensor(first_chunk, tensors, chunk):
    """The tensor that a chunk belongs to, or those that several do: the last whose first chunk is not past it."""
    tensor = chunk * 0
    left = tensors
    while left > 1:
        half = left // 2
        tensor += tl.where(tl.load(first_chunk + tensor + half) <= chunk, half, 0)
        left -= half
    return tensor


@triton.jit
def part_of(sizes, first_chunk, tensor, chunk, CHUNK: tl.constexpr):
    """Where in its tensor a chunk begins, and how many it has."""
    start = (chunk - tl.load(first_chunk + tensor)).to(tl.int64) * CHUNK
    return start, tl.minimum(tl.load(sizes + tensor) - start, CHUNK).to(tl.int32)


@triton.jit
def address(table, tensor, DTYPE: tl.constexpr, WIDE: tl.constexpr = True):
    """`WIDE`: read four floats at a time, which tensors that start on 16 bytes can be; a layout takes no others."""
    pointer = tl.load(table + tensor).to(tl.pointer_type(DTYPE))
    if WIDE:
        pointer = tl.multiple_of(pointer, 16)
    return pointer


@triton.jit
def read(pointer, at, size, MASKED: tl.constexpr):
    # A mask of unknown alignment makes every load scalar, so only a tensor's last block has one.
    if MASKED:
        value = tl.load(pointer + at, mask=at < size, other=0.0)
    else:
        value = tl.load(pointer + at)
    return value.to(tl.float32)


@triton.jit
def by_lane(values, BLOCK: tl.constexpr):
    """Each lane's sum over its own values of a block that is not read wide: nothing is told from lane to lane."""
    return tl.sum(tl.reshape(values, (_EACH, BLOCK // _EACH)), 0)


@triton.jit
def write(pointer, at, size, value, MASKED: tl.constexpr):
    if MASKED:
        tl.store(pointer + at, value, mask=at < size)
    else:
        tl.store(pointer + at, value)
