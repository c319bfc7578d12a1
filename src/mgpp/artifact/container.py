"""The safetensors container: eight bytes of length, a JSON header, then the tensors' bytes without a gap.

Read and written here rather than by the safetensors package for two reasons: a tensor's bytes are read straight to
where they will stay, and a file whose sizes are known only when its last tensor has been compressed is written in one
pass. Any safetensors reader can open what is written.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

DTYPES: dict[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
CODES = {dtype: code for code, dtype in DTYPES.items()}
MAX_HEADER = 100_000_000  # safetensors' own limit
MAX_DIMS = 16
_STRETCH = 1 << 24


class BrokenFile(ValueError):
    """A file that is damaged, was altered, or never was what it says."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}: the file is damaged or was altered, fetch or export it again")


def itemsize(code: str) -> int:
    return DTYPES[code].itemsize


def as_bytes(tensor: Tensor) -> np.ndarray:
    """The bytes of a contiguous tensor on the CPU, as they lie in memory; what is written to them is in the tensor."""
    return tensor.reshape(-1).view(torch.uint8).numpy()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Where one tensor lies: bytes `start` to `stop` of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


class Reader:
    """A file whose header has been checked: every entry lies in the file, and has the size that its shape says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise BrokenFile(path, "it is missing, or no regular file")
        self._file: BinaryIO = path.open("rb")
        try:
            self.metadata, self.entries = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def read_into(self, entry: Entry, out: np.ndarray) -> int:
        """Fill `out` with the entry's bytes; returns their CRC-32."""
        self._file.seek(entry.start)
        crc = 0
        for stretch in _stretches(out):
            view = stretch.data
            while view:
                count = self._file.readinto(view)  # type: ignore[attr-defined]
                if not count:
                    raise BrokenFile(self.path, "it ended while it was read")
                view = view[count:]
            crc = zlib.crc32(stretch.data, crc)
        return crc

    def section(self, entry: Entry) -> "Section":
        """The entry's bytes as a file of its own, to be read once from front to back."""
        self._file.seek(entry.start)
        return Section(self._file, entry.stop - entry.start)

    def _read_header(self) -> tuple[dict[str, str], dict[str, Entry]]:
        size = os.fstat(self._file.fileno()).st_size
        if size < 8:
            raise BrokenFile(self.path, f"{size} bytes are no safetensors file")
        (length,) = struct.unpack("<Q", self._file.read(8))
        if length > min(MAX_HEADER, size - 8):
            raise BrokenFile(self.path, f"its header claims {length:,} bytes of a file of {size:,}")
        fields = parse_json(self._file.read(length), self.path)
        metadata = fields.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise BrokenFile(self.path, "its metadata are not strings")
        entries = {key: self._entry(key, value, 8 + length) for key, value in fields.items()}
        self._require_no_gaps(entries, 8 + length, size)
        return metadata, entries

    def _entry(self, key: str, value: Any, base: int) -> Entry:
        if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
            raise BrokenFile(self.path, f"the entry of {key!r} is none")
        code, offsets = value["dtype"], value["data_offsets"]
        if not isinstance(code, str) or code not in DTYPES:
            raise BrokenFile(self.path, f"{key!r} has the type {code!r}, which is unknown")
        shape = as_shape(value["shape"])
        if shape is None or as_shape(offsets) is None or len(offsets) != 2:
            raise BrokenFile(self.path, f"{key!r} has no valid shape or place")
        start, stop = offsets
        if stop - start != prod(shape) * itemsize(code):
            raise BrokenFile(self.path, f"{key!r} has {stop - start:,} bytes, {list(shape)} of {code} take others")
        return Entry(dtype=code, shape=shape, start=base + start, stop=base + stop)

    def _require_no_gaps(self, entries: Mapping[str, Entry], end: int, size: int) -> None:
        for key, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
            if entry.start != end:
                raise BrokenFile(self.path, f"{key!r} begins at byte {entry.start:,} and not at {end:,}")
            end = entry.stop
        if end != size:
            raise BrokenFile(self.path, f"its tensors end at byte {end:,} and the file has {size:,}")


class Section:
    """Part of a file. `crc32` is that of what has been read."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.left = size
        self.crc32 = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self.left if size < 0 else min(size, self.left))
        self.left -= len(data)
        self.crc32 = zlib.crc32(data, self.crc32)
        return data


class Writer:
    """One file, written front to back. `room` bytes are left for the header, which is known last."""

    def __init__(self, path: Path, *, room: int) -> None:
        self.path = path
        self._room = room
        self._file: BinaryIO = path.open("wb")
        self._file.seek(8 + room)
        self._header: dict[str, Any] = {}
        self.size = 0

    def add(self, key: str, code: str, shape: tuple[int, ...], data: np.ndarray) -> int:
        """Append a tensor's bytes; returns their CRC-32."""
        crc = 0
        for stretch in _stretches(data):
            self._file.write(stretch.data)
            crc = zlib.crc32(stretch.data, crc)
        place = [self.size, self.size + data.size]
        self._header[key] = {"dtype": code, "shape": list(shape), "data_offsets": place}
        self.size += data.size
        return crc

    def close(self, metadata: Mapping[str, str]) -> None:
        """Write the header; what is written is on the disk when this returns."""
        header = json.dumps({"__metadata__": metadata, **self._header}, separators=(",", ":")).encode()
        if len(header) > self._room:
            raise ValueError(f"a header of {len(header):,} bytes does not fit the {self._room:,} left for it")
        self._file.seek(0)
        self._file.write(struct.pack("<Q", self._room) + header.ljust(self._room))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        with suppress(OSError):  # on a full disk closing fails, too
            self._file.close()


def parse_json(text: bytes, path: Path) -> dict[str, Any]:
    """A JSON object in which no key comes twice."""
    try:
        fields = json.loads(text.decode("utf-8"), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise BrokenFile(path, f"its header is no JSON ({str(error)[:100]})") from None
    if not isinstance(fields, dict):
        raise BrokenFile(path, "its header is no JSON object")
    return fields


def as_shape(value: Any) -> tuple[int, ...] | None:
    """A list of sizes as JSON gives it; None for anything else, or for more than any tensor could have."""
    if not isinstance(value, list) or len(value) > MAX_DIMS:
        return None
    return tuple(value) if all(type(size) is int and 0 <= size < 1 << 63 for size in value) else None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key comes twice")
    return fields


def _stretches(data: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, data.size, _STRETCH):
        yield data[start : start + _STRETCH]
