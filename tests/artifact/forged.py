"""A sparse file taken apart, to be put together again with something in it that is not true."""

import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

WEIGHT = "blocks.0.0.weight"  # of tests.toy.Toy: 12 × 8


class Forged:
    """A file taken apart: `header` and `layout` may be changed, `data` gives the bytes of a tensor."""

    def __init__(self, data: bytes) -> None:
        (length,) = struct.unpack("<Q", data[:8])
        self.header: dict[str, Any] = json.loads(data[8 : 8 + length])
        self.metadata = self.header.pop("__metadata__")
        self.layout = json.loads(self.metadata["layout"])
        self._body = data[8 + length :]
        self.data = {key: self._body[slice(*entry["data_offsets"])] for key, entry in self.header.items()}

    def replace(self, part: str, data: bytes, *, zstd: bool = False, name: str = WEIGHT) -> None:
        self.data[f"{name}#{part}"] = data
        record = self.layout["tensors"][name]["parts"].setdefault(part, {})
        record.update(crc32=zlib.crc32(data), zstd=zstd)
        if zstd:
            self.header[f"{name}#{part}"] |= {"dtype": "U8", "shape": [len(data)]}

    def write(self) -> bytes:
        body, at = b"", 0
        for key, entry in self.header.items():
            entry["data_offsets"] = [at, at + len(self.data[key])]
            at += len(self.data[key])
            body += self.data[key]
        text = json.dumps(self.layout)
        self.metadata |= {"layout": text, "layout_crc32": str(zlib.crc32(text.encode()))}
        header = json.dumps({"__metadata__": self.metadata, **self.header}).encode()
        return struct.pack("<Q", len(header)) + header + body

    @property
    def record(self) -> dict[str, Any]:
        return self.layout["tensors"][WEIGHT]

    def lie(self, change: Callable[[dict[str, Any]], None]) -> bytes:
        """The file as it was, under a header that `change` has altered: places and sizes are not set right."""
        change(self.header)
        header = json.dumps({"__metadata__": self.metadata, **self.header}).encode()
        return struct.pack("<Q", len(header)) + header + self._body
