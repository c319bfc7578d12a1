"""zstd over byte planes: all first bytes of the numbers, then all second ones, and so on.

The high bytes of weights, signs and exponents, are much alike; between the noise of the mantissas they would not
compress.
"""

import io
from types import ModuleType
from typing import Protocol

import numpy as np
import torch

# Above it a file becomes a few percent smaller and takes ten times as long to write; reading costs the same.
LEVEL = 10
# The most that a frame may ask for as memory to look back into: level 10 uses 4 MiB.
MAX_WINDOW = 1 << 24
_STRETCH = 1 << 20


def require_zstd() -> ModuleType:
    try:
        import zstandard
    except ImportError:
        raise ImportError("zstd needs the package zstandard: pip install 'mgpp[zstd]'") from None
    return zstandard


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


def compress(data: np.ndarray, *, width: int) -> bytes:
    """`data` is bytes (uint8) of numbers that are `width` bytes wide."""
    planes = np.ascontiguousarray(data.reshape(-1, width).T)
    # However many threads there are, the bytes are the same.
    return require_zstd().ZstdCompressor(level=LEVEL, threads=torch.get_num_threads()).compress(planes)


def decompress_into(out: np.ndarray, frame: Readable, *, width: int) -> None:
    """Fills `out` (uint8) from a file; takes a few megabytes beside it, whatever the frame claims.

    ValueError where the frame is broken, or holds more or fewer bytes than `out`.
    """
    zstandard = require_zstd()
    numbers = out.reshape(-1, width)
    stretch = np.empty(min(_STRETCH, max(1, len(numbers))), dtype=np.uint8)
    try:
        with zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).stream_reader(frame) as reader:
            for plane in range(width):
                _read_plane(reader, numbers[:, plane], stretch)
            if reader.read(1):
                raise ValueError(f"its zstd frame holds more than the {out.size:,} bytes declared")
    except zstandard.ZstdError as error:
        raise ValueError(f"its zstd frame is broken ({error})") from None


def _read_plane(reader: io.RawIOBase, plane: np.ndarray, stretch: np.ndarray) -> None:
    done = 0
    while done < len(plane):
        wanted = stretch.data[: len(plane) - done]
        count = reader.readinto(wanted) or 0
        if not count:
            raise ValueError("its zstd frame holds fewer bytes than declared")
        plane[done : done + count] = stretch[:count]
        done += count
