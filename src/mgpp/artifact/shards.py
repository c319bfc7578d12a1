"""The files of one saved model: one, or several with an index that says which tensor is where."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mgpp.artifact.container import BrokenFile, Reader, parse_json
from mgpp.artifact.layout import FORMAT, VERSION, Layout, from_metadata

STEM = "model.sparse"
WEIGHTS_FILE = f"{STEM}.safetensors"
INDEX_FILE = f"{STEM}.safetensors.index.json"
# Nothing but a plain name in the same folder can match: an index that points elsewhere is refused.
_SHARD = re.compile(rf"{re.escape(STEM)}-(\d{{5}})-of-(\d{{5}})\.safetensors")
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def shard_name(number: int, count: int) -> str:
    return f"{STEM}-{number:05d}-of-{count:05d}.safetensors"


def is_sparse(folder: str | Path) -> bool:
    """Whether `save_sparse` wrote into this folder."""
    folder = Path(folder).expanduser()
    return (folder / WEIGHTS_FILE).exists() or (folder / INDEX_FILE).exists()


def files_of(folder: Path) -> list[Path]:
    """The files that hold the tensors, in order; ValueError where they cannot be one model."""
    single, index = folder / WEIGHTS_FILE, folder / INDEX_FILE
    if single.exists() and index.exists():
        raise ValueError(f"{folder} holds both {WEIGHTS_FILE} and {INDEX_FILE}: remove the one that is not wanted")
    if index.exists():
        return [folder / name for name in _read_index(index)["shards"]]
    if not single.exists():
        raise ValueError(
            f"{folder} holds no {WEIGHTS_FILE}: export a model to it first (mgpp export, mgpp.save_sparse)"
        )
    return [single]


def open_files(folder: Path) -> list[tuple[Reader, Layout]]:
    """Every file with its layout, checked against the file itself and against the index. The caller closes them."""
    opened: list[tuple[Reader, Layout]] = []
    try:
        for path in files_of(folder):
            reader = Reader(path)
            opened.append((reader, Layout(records={})))
            opened[-1] = (reader, from_metadata(reader.metadata, reader.entries, path))
        if (folder / INDEX_FILE).exists():
            _check_index(folder / INDEX_FILE, opened)
    except BaseException:
        close(opened)
        raise
    return opened


def close(opened: Sequence[tuple[Reader, Layout]]) -> None:
    for reader, _ in opened:
        reader.close()


def write_index(folder: Path, shards: dict[str, str], weight_map: dict[str, str]) -> None:
    """`shards` gives each file's layout checksum: a file of another save has another."""
    index = {"format": FORMAT, "version": VERSION, "shards": shards, "weight_map": weight_map}
    (folder / INDEX_FILE).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def remove_others(folder: Path, *, keep: set[str]) -> None:
    """What an earlier save left and this one did not replace."""
    for path in folder.iterdir():
        if path.name not in keep and (path.name in (WEIGHTS_FILE, INDEX_FILE) or _SHARD.fullmatch(path.name)):
            path.unlink()


def read_size(size: int | str) -> int:
    """5_000_000_000 or "5GB"."""
    number, unit = size, 1
    if isinstance(size, str):
        found = re.fullmatch(r"(\d+)\s*([KMGT]B)?", size.strip().upper())
        number, unit = (int(found[1]), _UNITS.get(found[2], 1)) if found else (0, 1)
    if not isinstance(number, int) or number < 1:
        raise ValueError(f"shard_size={size!r}: a number of bytes, or such as 500MB or 5GB")
    return number * unit


def _read_index(path: Path) -> dict[str, Any]:
    if path.stat().st_size > 100_000_000:
        raise BrokenFile(path, "it is too large for an index")
    index = parse_json(path.read_bytes(), path)
    shards, weight_map = index.get("shards"), index.get("weight_map")
    if index.get("format") != FORMAT or not isinstance(shards, dict) or not isinstance(weight_map, dict):
        raise BrokenFile(path, "it is no index of a sparse model")
    if index.get("version") != VERSION:
        raise ValueError(f"{path} has version {index.get('version')!r} and this mgpp reads {VERSION}: upgrade mgpp")
    if list(shards) != [shard_name(number, len(shards)) for number in range(1, len(shards) + 1)]:
        raise BrokenFile(path, "its files are not the shards of one model, in order")
    return index


def _check_index(path: Path, opened: Sequence[tuple[Reader, Layout]]) -> None:
    index = _read_index(path)
    found: dict[str, str] = {}
    for reader, layout in opened:
        if reader.metadata["layout_crc32"] != index["shards"][reader.path.name]:
            raise BrokenFile(reader.path, "it belongs to another save than the index beside it")
        for name in (*layout.records, *layout.tied):
            if name in found:
                raise BrokenFile(reader.path, f"{name!r} is in {found[name]}, too")
            found[name] = reader.path.name
    if index["weight_map"] != found:
        raise BrokenFile(path, "it lists other tensors than the files hold")
