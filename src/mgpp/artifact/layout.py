"""What a file says of each model tensor: how it was, how it is stored, and in which parts.

The layout travels as JSON in the header's metadata. Nothing in it is believed: every size that it states is compared
with the entries of the file, so that what is read, and what is allocated to read it, is never more than the file holds
or its shapes allow.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from mgpp.artifact.bitmask import mask_bytes
from mgpp.artifact.container import CODES, DTYPES, BrokenFile, Entry, as_shape, itemsize, parse_json

FORMAT = "mgpp-sparse"
VERSION = 1
SEPARATOR = "#"

MASK, VALUES, SCALE, NEGATIVE = "mask", "values", "scale", "negative"
# Which parts a tensor may have: as it is; int8 with scales; and both of these behind a mask. NEGATIVE marks zeros that
# carry a sign.
PARTS = ({VALUES}, {VALUES, SCALE}, {MASK, VALUES}, {MASK, VALUES, SCALE}, {MASK, VALUES, NEGATIVE})
FLOATS = ("F64", "F32", "BF16", "F16")
NARROWED = ("BF16", "F16")


@dataclass(frozen=True, kw_only=True)
class Part:
    """How one part lies in the file; the checksum is that of the bytes there."""

    crc32: int
    zstd: bool = False


@dataclass(frozen=True, kw_only=True)
class Record:
    """One tensor of the model: of `dtype` there, stored as `stored`; with a mask, `kept` of its numbers are stored."""

    shape: tuple[int, ...]
    dtype: str
    stored: str
    kept: int | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """In the model."""
        return self.count * itemsize(self.dtype)

    @property
    def rows(self) -> int:
        return self.count // self.shape[-1] if self.count else 0

    def raw(self, part: str) -> tuple[str, tuple[int, ...]]:
        """Type and shape of a part before it is compressed."""
        if part in (MASK, NEGATIVE):
            return "U8", (mask_bytes(self.count),)
        if part == SCALE:
            return "F32", (self.rows,)
        return self.stored, self.shape if self.kept is None else (self.kept,)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """All of one file: `tied` gives further names of a tensor that is stored once."""

    records: Mapping[str, Record]
    tied: Mapping[str, str] = field(default_factory=dict)


def key_of(name: str, record: Record, part: str) -> str:
    """A tensor that is stored as it is keeps its name, for any reader of safetensors."""
    plain = record.parts.keys() == {VALUES} and record.stored == record.dtype and not record.parts[VALUES].zstd
    return name if plain else f"{name}{SEPARATOR}{part}"


def to_metadata(layout: Layout) -> dict[str, str]:
    plain = {
        "tensors": {name: _to_dict(record) for name, record in layout.records.items()},
        "tied": dict(layout.tied),
    }
    text = json.dumps(plain, separators=(",", ":"))
    return {"format": FORMAT, "version": str(VERSION), "layout": text, "layout_crc32": str(zlib.crc32(text.encode()))}


def from_metadata(metadata: Mapping[str, str], entries: Mapping[str, Entry], path: Path) -> Layout:
    """The layout, when all that it says of the file is true."""
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} is no sparse file of mgpp's: load it with from_pretrained, or export it first")
    if metadata.get("version") != str(VERSION):
        found = metadata.get("version")
        raise ValueError(f"{path} has version {found!r} of the format and this mgpp reads {VERSION}: upgrade mgpp")
    text = metadata.get("layout", "").encode("utf-8", "surrogatepass")
    if metadata.get("layout_crc32") != str(zlib.crc32(text)):
        raise BrokenFile(path, "its layout does not match its checksum")
    fields = parse_json(text, path)
    tensors, tied = fields.get("tensors"), fields.get("tied")
    if not isinstance(tensors, dict) or not isinstance(tied, dict):
        raise BrokenFile(path, "its layout lists no tensors")
    records = {name: _from_dict(name, value, path) for name, value in tensors.items()}
    layout = Layout(records=records, tied=tied)
    _check_tied(layout, path)
    _check_entries(layout, entries, path)
    return layout


def _to_dict(record: Record) -> dict[str, Any]:
    kept = {} if record.kept is None else {"kept": record.kept}
    parts = {name: {"crc32": part.crc32, "zstd": part.zstd} for name, part in record.parts.items()}
    return {"shape": list(record.shape), "dtype": record.dtype, "stored": record.stored, **kept, "parts": parts}


def _from_dict(name: str, value: Any, path: Path) -> Record:
    def require(holds: bool, what: str) -> None:
        if not holds:
            raise BrokenFile(path, f"{name!r} has no valid {what}")

    require(isinstance(value, dict), "record")
    shape = as_shape(value.get("shape"))
    parts, dtype, stored, kept = (value.get(key) for key in ("parts", "dtype", "stored", "kept"))
    require(shape is not None, "shape")
    require(isinstance(dtype, str) and dtype in DTYPES and isinstance(stored, str) and stored in DTYPES, "type")
    require(isinstance(parts, dict) and set(parts) in PARTS, "parts")
    require(all(_is_part(part) for part in parts.values()), "parts")
    record = Record(
        shape=shape or (),
        dtype=dtype,
        stored=stored,
        kept=kept,
        parts={key: Part(crc32=part["crc32"], zstd=part["zstd"]) for key, part in parts.items()},
    )
    require((MASK in parts) == (kept is not None), "count")
    require(kept is None or (type(kept) is int and 0 <= kept <= record.count), "count")
    require(MASK not in parts or (dtype in FLOATS and record.count > 0), "mask")
    require(_is_stored(record), "way of being stored")
    return record


def _is_part(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"crc32", "zstd"}:
        return False
    return type(value["crc32"]) is int and type(value["zstd"]) is bool


def _is_stored(record: Record) -> bool:
    if SCALE in record.parts:
        return record.stored == "I8" and record.dtype in FLOATS and len(record.shape) > 1 and record.count > 0
    narrowed = record.dtype in FLOATS and record.stored in NARROWED and itemsize(record.dtype) > 2
    return record.stored == record.dtype or (narrowed and NEGATIVE not in record.parts)


def _check_tied(layout: Layout, path: Path) -> None:
    for alias, name in layout.tied.items():
        if not isinstance(name, str) or name not in layout.records or alias in layout.records:
            raise BrokenFile(path, f"{alias!r} is tied to {name!r}, which cannot be")


def _check_entries(layout: Layout, entries: Mapping[str, Entry], path: Path) -> None:
    expected = dict(_expected(layout))
    if expected.keys() != entries.keys():
        odd = sorted(expected.keys() ^ entries.keys())[0]
        raise BrokenFile(path, f"{odd!r} is in its layout or among its tensors, not in both")
    for key, (record, part) in expected.items():
        entry, (code, shape) = entries[key], record.raw(part)
        if record.parts[part].zstd:
            matches = entry.dtype == "U8" and len(entry.shape) == 1
        else:
            matches = (entry.dtype, entry.shape) == (code, shape)
        if not matches:
            raise BrokenFile(path, f"{key!r} is {list(entry.shape)} of {entry.dtype} and not as its layout says")


def _expected(layout: Layout) -> Iterator[tuple[str, tuple[Record, str]]]:
    for name, record in layout.records.items():
        for part in record.parts:
            yield key_of(name, record, part), (record, part)


def code_of(dtype: Any, name: str) -> str:
    try:
        return CODES[dtype]
    except KeyError:
        raise ValueError(f"{name} has the type {dtype}, which a sparse file cannot hold: convert it first") from None
