"""Tensors into files, one tensor at a time: what is held beside the model is never more than its largest tensor."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from mgpp.artifact.container import DTYPES, Writer, as_bytes
from mgpp.artifact.encoding import encode
from mgpp.artifact.layout import MASK, NEGATIVE, SEPARATOR, VALUES, Layout, Part, Record, key_of, to_metadata
from mgpp.artifact.model import Tensors
from mgpp.artifact.precision import Precision
from mgpp.artifact.shards import WEIGHTS_FILE, shard_name, write_index
from mgpp.artifact.zstd import compress

_LONGEST = max(DTYPES, key=len)


def write_shards(tensors: Tensors, draft: Path, *, precision: Precision, zstd: bool, limit: int) -> dict[str, Layout]:
    """One file, or several of at most `limit` bytes (a larger tensor has one of its own), and their layouts."""
    left = list(tensors.tensors)
    written: list[Layout] = []
    while left or not written:
        path = draft / f"{len(written)}.part"
        written.append(_write_shard(path, left, tensors, precision=precision, zstd=zstd, limit=limit))
        left = left[len(written[-1].records) :]
    count = len(written)
    names = [WEIGHTS_FILE] if count == 1 else [shard_name(number, count) for number in range(1, count + 1)]
    for number, name in enumerate(names):
        (draft / f"{number}.part").rename(draft / name)
    layouts = dict(zip(names, written, strict=True))
    if count > 1:
        _write_index(draft, layouts)
    return layouts


def _write_index(draft: Path, layouts: dict[str, Layout]) -> None:
    checksums = {name: to_metadata(layout)["layout_crc32"] for name, layout in layouts.items()}
    places = {key: name for name, layout in layouts.items() for key in (*layout.records, *layout.tied)}
    write_index(draft, checksums, places)


def _write_shard(
    path: Path, names: Sequence[str], tensors: Tensors, *, precision: Precision, zstd: bool, limit: int
) -> Layout:
    writer = Writer(path, room=_room(names, tensors))
    records: dict[str, Record] = {}
    try:
        for name in names:
            record, data = _encoded(name, tensors, precision=precision, zstd=zstd)
            if records and writer.size + sum(part.size for part in data.values()) > limit:
                break
            records[name] = _add(writer, name, record, data)
        layout = _layout(records, tensors)
        writer.close(to_metadata(layout))
    except BaseException:
        writer.abandon()
        raise
    return layout


def _layout(records: dict[str, Record], tensors: Tensors) -> Layout:
    return Layout(records=records, tied={alias: name for alias, name in tensors.tied.items() if name in records})


def _encoded(name: str, tensors: Tensors, *, precision: Precision, zstd: bool) -> tuple[Record, dict[str, np.ndarray]]:
    """The record, whose parts have no checksum yet, and the bytes of its parts."""
    tensor = tensors.tensors[name].detach().cpu().contiguous()
    stored = precision.stored(tensor, name=name, embedding=name in tensors.embeddings)
    try:
        record, parts = encode(tensor, stored)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    marks, data = {}, {}
    for key, part in parts.items():
        data[key], packed = _packed(part, zstd=zstd)
        marks[key] = Part(crc32=0, zstd=packed)
    return _with_parts(record, marks), data


def _packed(part: Tensor, *, zstd: bool) -> tuple[np.ndarray, bool]:
    plain = as_bytes(part)
    if not zstd or not plain.size:
        return plain, False
    small = np.frombuffer(compress(plain, width=part.element_size()), dtype=np.uint8)
    return (small, True) if small.size < plain.size else (plain, False)


def _add(writer: Writer, name: str, record: Record, data: dict[str, np.ndarray]) -> Record:
    parts = {}
    for part, content in data.items():
        packed = record.parts[part].zstd
        code, shape = ("U8", (content.size,)) if packed else record.raw(part)
        crc = writer.add(key_of(name, record, part), code, shape, content)
        parts[part] = Part(crc32=crc, zstd=packed)
    return _with_parts(record, parts)


def _with_parts(record: Record, parts: dict[str, Part]) -> Record:
    return Record(shape=record.shape, dtype=record.dtype, stored=record.stored, kept=record.kept, parts=parts)


def _room(names: Sequence[str], tensors: Tensors) -> int:
    """Bytes that no header for these tensors exceeds: each in as many parts as there can be, with the longest numbers.

    Sizes are known only when a tensor has been compressed, and the header comes first in the file.
    """
    parts = dict.fromkeys((MASK, VALUES, NEGATIVE), Part(crc32=2**32, zstd=False))
    # Twice all bytes: zstd may make noise a little longer, and never that much.
    end = 2 * sum(tensor.numel() * max(4, tensor.element_size()) for tensor in tensors.tensors.values())
    records: dict[str, Record] = {}
    entries: dict[str, Any] = {}
    for name in names:
        shape, count = tuple(tensors.tensors[name].shape), tensors.tensors[name].numel()
        records[name] = Record(shape=shape, dtype=_LONGEST, stored=_LONGEST, kept=count, parts=parts)
        entry = {"dtype": _LONGEST, "shape": [*shape, 4 * count], "data_offsets": [end, end]}
        entries |= {f"{name}{SEPARATOR}{part}": entry for part in parts}
    metadata = to_metadata(_layout(records, tensors))
    return -(-len(json.dumps({"__metadata__": metadata, **entries}, separators=(",", ":"))) // 8) * 8
