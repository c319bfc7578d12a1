"""Rows from a hub name, a file (parquet, CSV, JSONL), or a folder of `train.*` and `validation.*`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgpp.tasks.extra import require

if TYPE_CHECKING:
    from datasets import Dataset

FORMATS = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".json": "json"}
# Shards as the hub names them are one split: train-00000-of-00002.parquet.
_SHARD = re.compile(r"-\d+-of-\d+$")


def load_splits(data: str) -> "dict[str, Dataset]":
    """Every split of `data`, none of them empty. A single file is the split `train`."""
    path = Path(data).expanduser()
    if path.is_dir():
        splits = {name: _read_files(files) for name, files in _files_by_split(path).items()}
    elif path.is_file():
        splits = {"train": _read_files([path])}
    elif path.suffix in FORMATS or data.startswith((".", "/", "~")):
        raise FileNotFoundError(f"{data} is not there: give a file, a folder with train.* in it, or a hub name")
    else:
        splits = _from_hub(data)
    for name, rows in splits.items():
        if len(rows) == 0:
            raise ValueError(f"{data} has no rows in {name}: give data with at least one")
    return splits


def choose_split(splits: "Mapping[str, Dataset]", name: str, *, data: str) -> "Dataset":
    if name not in splits:
        raise ValueError(f"{data} has no split {name!r}: it has {', '.join(splits)}")
    return splits[name]


def hold_out(rows: "Dataset", *, share: float, seed: int) -> "tuple[Dataset, Dataset]":
    """(rest, held out): a share of the rows, at least one each, the same ones for the same seed."""
    if len(rows) < 2:
        raise ValueError("one row cannot be split into training and evaluation rows: give more, or evaluation data")
    count = min(max(1, round(share * len(rows))), len(rows) - 1)
    parts = rows.train_test_split(test_size=count, seed=seed, shuffle=True)
    return parts["train"], parts["test"]


def _files_by_split(folder: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for file in sorted(folder.iterdir()):
        if file.suffix in FORMATS and file.is_file():
            found.setdefault(_SHARD.sub("", file.stem), []).append(file)
    if not found:
        kinds = ", ".join(FORMATS)
        raise ValueError(f"{folder} holds no data file ({kinds}): it should hold train.* and validation.*")
    for name, files in found.items():
        if len({file.suffix for file in files}) > 1:
            raise ValueError(f"{folder} holds {name} twice: {', '.join(file.name for file in files)}; keep one")
    return found


def _read_files(files: list[Path]) -> "Dataset":
    kind = FORMATS.get(files[0].suffix)
    if kind is None:
        raise ValueError(f"{files[0]} is no {', '.join(FORMATS)} file: convert it to one of these")
    options: dict[str, Any] = {}
    if kind == "csv":
        # pandas takes the words "NA", "null" and "None" for missing values; in a review they are words.
        options = {"keep_default_na": False, "na_values": [""]}
        if files[0].suffix == ".tsv":
            options["sep"] = "\t"
    datasets = require("datasets")
    for file in files:
        if kind == "csv" and not _has_rows(file):
            raise ValueError(f"{file} has no rows: a first line with the columns' names, then one row a line")
    try:
        return datasets.load_dataset(kind, data_files=[str(file) for file in files], split="train", **options)
    except Exception as error:  # each format fails with its own library's exceptions, wrapped twice
        raise ValueError(f"{files[0]} cannot be read as {kind}: {_root_cause(error)}") from error


def _has_rows(file: Path) -> bool:
    with file.open(encoding="utf-8", errors="replace") as lines:
        return sum(1 for _, line in zip(range(10_000), lines, strict=False) if line.strip()) > 1


def _from_hub(name: str) -> "dict[str, Dataset]":
    datasets = require("datasets")
    failure: Exception | None = None
    for address in _addresses(name):
        try:
            return dict(datasets.load_dataset(*address))
        except Exception as error:
            failure = failure or error
    raise OSError(
        f"{name!r} is no local file or folder, and loading it from the Hugging Face hub failed "
        f"({_root_cause(failure)}): check the name and the connection"
    ) from failure


def _addresses(name: str) -> list[tuple[str, ...]]:
    """What may be meant: owner/name, name/subset (glue/sst2), owner/name/subset."""
    parts = name.split("/")
    if len(parts) == 3:
        return [("/".join(parts[:2]), parts[2])]
    if len(parts) == 2:
        return [(name,), (parts[0], parts[1])]
    return [(name,)]


def _root_cause(error: BaseException | None) -> str:
    while error is not None and (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(error).__name__
