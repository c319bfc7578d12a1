"""`load_sparse`: the model that `save_sparse` wrote, in one pass and one copy."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mgpp.artifact.container import DTYPES, BrokenFile, Entry, Reader, as_bytes
from mgpp.artifact.encoding import decode
from mgpp.artifact.hub import fetch
from mgpp.artifact.layout import Layout, Record, key_of
from mgpp.artifact.model import (
    add_generation_config,
    as_parameter,
    assign,
    read_config,
    real_names,
    shapes_only,
    tensors_of,
    without_weights,
)
from mgpp.artifact.shards import close, open_files
from mgpp.artifact.zstd import decompress_into, require_zstd
from mgpp.targets import unwrap


def load_sparse(folder: str | Path, *, model: nn.Module | None = None) -> nn.Module:
    """The model in `folder` (or of that name on the hub), in evaluation mode, as from_pretrained would give it.

    Every file is checked before anything is allocated, and nothing but numbers is read from it. A model that is not
    one of transformers' classes is made by you and passed as `model`: its weights are replaced.
    """
    place = fetch(folder)
    opened = open_files(place)
    try:
        records = {name: record for _, layout in opened for name, record in layout.records.items()}
        tied = {alias: name for _, layout in opened for alias, name in layout.tied.items()}
        _check_memory(records, place)
        if any(part.zstd for record in records.values() for part in record.parts.values()):
            require_zstd()
        if model is None:
            config = read_config(place)
            _check_fit(shapes_only(config), records, tied, place)
            model = without_weights(config)
        else:
            _check_fit(unwrap(model), records, tied, place)
        _fill(unwrap(model), opened, tied)
    finally:
        close(opened)
    if isinstance(model, PreTrainedModel):
        add_generation_config(model, place)
    return model.eval()


def read_tensor(reader: Reader, name: str, record: Record) -> Tensor:
    """One tensor of the model; what is read is allocated as the record says, which `open_files` has checked."""
    parts = {part: _read_part(reader, name, record, part) for part in record.parts}
    try:
        return decode(record, parts)
    except ValueError as error:
        raise BrokenFile(reader.path, f"{name!r} cannot be read, {error}") from None


def _read_part(reader: Reader, name: str, record: Record, part: str) -> Tensor:
    code, shape = record.raw(part)
    entry = reader.entries[key_of(name, record, part)]
    out = torch.empty(shape, dtype=DTYPES[code])
    if record.parts[part].zstd:
        crc = _unpack(reader, entry, out)
    else:
        crc = reader.read_into(entry, as_bytes(out))
    if crc != record.parts[part].crc32:
        raise BrokenFile(reader.path, f"the {part} of {name!r} do not match their checksum")
    if code == "BOOL" and bool((as_bytes(out) > 1).any()):
        raise BrokenFile(reader.path, f"{name!r} has a truth value that is neither 0 nor 1")
    return out


def _unpack(reader: Reader, entry: Entry, out: Tensor) -> int:
    section = reader.section(entry)
    try:
        decompress_into(as_bytes(out), section, width=out.element_size())
    except ValueError as error:
        raise BrokenFile(reader.path, f"a tensor cannot be read, {error}") from None
    section.read()  # what may stand after the frame
    return section.crc32


def _fill(model: nn.Module, opened: Iterable[tuple[Reader, Layout]], tied: Mapping[str, str]) -> None:
    made, real = tensors_of(model), real_names(model)
    stored = {name for _, layout in opened for name in layout.records} | tied.keys()
    names: dict[str, list[str]] = {}
    for alias, name in tied.items():
        names.setdefault(name, []).append(alias)
    for alias, peer in _tied_by_the_model(made.tied, stored).items():
        names.setdefault(tied.get(peer, peer), []).append(alias)
    for reader, layout in opened:
        for name, record in layout.records.items():
            like = made.tensors[made.tied.get(name, name)]
            value = as_parameter(read_tensor(reader, name, record), like=like)
            for place in (name, *names.get(name, ())):
                assign(model, real[place], value)


def _tied_by_the_model(tied: Mapping[str, str], stored: set[str]) -> dict[str, str]:
    """{a name that the file does not have: one that it has}, where the model itself makes both the same tensor."""
    groups: dict[str, list[str]] = {}
    for alias, name in tied.items():
        groups.setdefault(name, [name]).append(alias)
    found: dict[str, str] = {}
    for group in groups.values():
        peers = [name for name in group if name in stored]
        found |= {name: peers[0] for name in group if peers and name not in stored}
    return found


def _check_fit(model: nn.Module, records: Mapping[str, Record], tied: Mapping[str, str], folder: Path) -> None:
    """The file's tensors are the model's: all of them, of the same shapes. Nothing has been allocated yet."""
    made = tensors_of(model)
    theirs = {name: made.tensors[made.tied.get(name, name)] for name in (*made.tensors, *made.tied)}
    stored = {name: records[tied.get(name, name)] for name in (*records, *tied)}
    missing = theirs.keys() - stored.keys() - _tied_by_the_model(made.tied, set(stored)).keys()
    if missing or stored.keys() - theirs.keys():
        raise ValueError(
            f"the weights in {folder} do not fit its config: missing {_few(missing)}, not expected "
            f"{_few(stored.keys() - theirs.keys())}; export the model again"
        )
    for name, record in stored.items():
        tensor = theirs[name]
        if tuple(tensor.shape) != record.shape:
            raise ValueError(
                f"{name} in {folder} is {list(record.shape)} and its config says {list(tensor.shape)}: export it again"
            )
        if tensor.is_floating_point() != DTYPES[record.dtype].is_floating_point:
            raise ValueError(f"{name} in {folder} is of type {record.dtype} and not {tensor.dtype}: export it again")


def _few(names: Iterable[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "") or "none"


def _check_memory(records: Mapping[str, Record], folder: Path) -> None:
    """A few bytes may declare a tensor of any size, compressed zeros: more than the machine has is not even begun."""
    needed = sum(record.nbytes for record in records.values())
    there = physical_memory()
    if there is not None and needed > there:
        raise ValueError(
            f"the model in {folder} would take {needed / 1e9:,.1f} GB and this machine has {there / 1e9:,.1f} GB: load "
            "it on a larger one, or do not trust the file"
        )


def physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not known on this system
        return None
