"""Rows from a hub name, a file (parquet, CSV, JSONL), a folder of `train.*` and `validation.*`, or `datasets`."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgpp.tasks.extra import require
from mgpp.tasks.source import HOLDOUT, OBJECT, Data, Source, describe_data

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".json": "json",
    ".txt": "text",  # a row for every line, in the column `text`
}
# Shards are one split, as the hub names them (train-00000-of-00002.parquet) or without their number (train-00000).
_SHARD = re.compile(r"-\d+-of-\d+$|-\d{4,}$")


# Of a stream, so many rows are scored on.
TRAIN, EVAL = "--train-split", "--eval-split"
STREAMED_ROWS = 200
_TOGETHER = 10_000


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The rows that a task learns from and those it is scored on, by split; none of the latter until `hold_out`.

    `train` may be a stream; the others are few, and at hand.
    """

    train: "Dataset | IterableDataset"
    evaluation: "Mapping[str, Dataset]"
    note: str = ""

    def hold_out(self, source: Source, *, seed: int) -> "Parts":
        """Where no rows to score on were given, or none are wanted, some of the training rows are set aside."""
        if self.evaluation:
            return replace(self, note=scored_on(self.evaluation))
        why = "as asked" if source.eval_split == HOLDOUT else "no validation rows were given"
        if is_stream(self.train):
            held = first_rows(self.train, STREAMED_ROWS)
            note = f"{why}: the first {len(held):,} of the stream are held out and scored on"
            return Parts(train=self.train.skip(STREAMED_ROWS), evaluation={"validation": held}, note=note)
        train, held = hold_out(self.train, share=source.holdout, seed=seed)
        note = (
            f"{why}: {len(held):,} of {len(self.train):,} training rows are held out "
            f"({source.holdout:.0%}, seed {seed}) and scored on"
        )
        return Parts(train=train, evaluation={"validation": held}, note=note)


def find_parts(source: Source, *, prefer: Sequence[str] = ("validation",), streams: bool = False) -> Parts:
    """The splits that `source` names; else train, and of `prefer` as many as there are."""
    splits = load_splits(source.data, stream=source.stream)
    train = source.train_split or _only(splits, "train", source.data, option=TRAIN)
    if source.eval_split == HOLDOUT:
        found = {}
    elif source.eval_data is not None:
        others = load_splits(source.eval_data, stream=source.stream)
        names = [source.eval_split] if source.eval_split else _preferred(others, prefer) or list(others)[:1]
        where = str(describe_data(source.eval_data))
        found = {
            where if len(names) == 1 else name: choose_split(others, name, data=where, option=EVAL) for name in names
        }
    elif source.eval_split is not None:
        found = {source.eval_split: choose_split(splits, source.eval_split, data=source.data, option=EVAL)}
    else:
        found = {name: splits[name] for name in _preferred(splits, prefer) if name != train}
    learnt = choose_split(splits, train, data=source.data, option=TRAIN)
    if not streams:
        _require_numbered([learnt, *found.values()])
    return Parts(train=learnt, evaluation={name: first_rows(rows, STREAMED_ROWS) for name, rows in found.items()})


def find_unlabelled(data: Data) -> "Dataset":
    """Its rows: those of `train`, or of the only split."""
    splits = load_splits(data)
    if len(splits) > 1 and "train" not in splits:
        raise ValueError(f"{describe_data(data)} has {', '.join(splits)}, and no train: give one of these as a file")
    rows = splits.get("train", next(iter(splits.values())))
    if is_stream(rows):
        raise ValueError(f"{describe_data(data)} is a stream: give rows without labels that have a number")
    return rows


def _require_numbered(parts: Iterable[Any]) -> None:
    if any(is_stream(rows) for rows in parts):
        raise ValueError("only language modelling reads a stream: leave --stream out, or give rows that have a number")


def is_stream(rows: Any) -> bool:
    return isinstance(rows, require("datasets").IterableDataset)


def first_rows(rows: "Dataset | IterableDataset", count: int) -> "Dataset":
    """Of a stream, its first ones; all of what is no stream."""
    if not is_stream(rows):
        return rows
    return require("datasets").Dataset.from_list(list(read_stream(rows.take(count))))


def read_stream(rows: "IterableDataset") -> Iterator[dict[str, Any]]:
    """Its rows; a file is opened and read only here, and each format fails with its own library's exceptions."""
    try:
        yield from rows
    except Exception as error:
        raise ValueError(f"the stream cannot be read: {_root_cause(error)}: mend the file, or leave it out") from error


def find_evaluation(
    source: Source, *, prefer: Sequence[str] = ("validation",), streams: bool = False
) -> "dict[str, Dataset]":
    """The rows that a finished model is scored on: `eval_split`, or of `prefer` what there is, or the only split."""
    splits = load_splits(source.data, stream=source.stream)
    names = [source.eval_split] if source.eval_split else _preferred(splits, prefer) or list(splits)
    if len(names) > 1 and not set(names) <= set(prefer):
        raise ValueError(
            f"{describe_data(source.data)} has {', '.join(splits)} and no validation: say which to score on ({EVAL})"
        )
    found = {_called(name, source.data): choose_split(splits, name, data=source.data, option=EVAL) for name in names}
    if not streams:
        _require_numbered(found.values())
    return {name: first_rows(rows, STREAMED_ROWS) for name, rows in found.items()}


def _called(split: str, data: Data) -> str:
    """A lone file is read as if it were to train on; its rows are whatever its name says."""
    path = Path(data).expanduser() if isinstance(data, str) else None
    return split if path is None or not path.is_file() else path.name


def scored_on(evaluation: "Mapping[str, Dataset]") -> str:
    told = "scored on " + " and ".join(f"the {len(rows):,} rows of {name}" for name, rows in evaluation.items())
    return f"{told}, which the model may have learnt from" if "train" in evaluation else told


def load_splits(data: Data, *, stream: bool = False) -> "dict[str, Any]":
    """Every split of `data`, none of them empty. A single file is the split `train`. A stream is not looked into."""
    if not isinstance(data, str):
        splits = dict(data) if isinstance(data, Mapping) else {"train": data}
        if stream:
            splits = {name: rows if is_stream(rows) else rows.to_iterable_dataset() for name, rows in splits.items()}
    elif data.startswith(OBJECT):
        raise ValueError(f"{data!r} stood for an object of `datasets` that is gone: give the object again")
    else:
        splits = _from_name(data, stream=stream)
    for name, rows in splits.items():
        if not is_stream(rows) and len(rows) == 0:
            raise ValueError(f"{describe_data(data)} has no rows in {name}: give data with at least one")
    return splits


def _from_name(data: str, *, stream: bool) -> "dict[str, Any]":
    path = Path(data).expanduser()
    if path.is_dir():
        return {name: _read_files(files, stream=stream) for name, files in _files_by_split(path).items()}
    if path.is_file():
        return {"train": _read_files([path], stream=stream)}
    if get_close_matches(path.suffix, FORMATS, cutoff=0.8) or data.startswith((".", "/", "~")):
        raise FileNotFoundError(f"{data} is not there: give a file, a folder with train.* in it, or a hub name")
    return _from_hub(data, stream=stream)


def choose_split(splits: Mapping[str, Any], name: str, *, data: Data, option: str) -> Any:
    if name not in splits:
        raise ValueError(f"{describe_data(data)} has no split {name!r}: it has {', '.join(splits)} ({option})")
    return splits[name]


def _only(splits: Mapping[str, Any], name: str, data: Data, *, option: str) -> str:
    """`name`, or the only split that begins with it (train_partial)."""
    like = [split for split in splits if split.startswith(f"{name}_")]
    if name in splits or not like:
        return name
    if len(like) > 1:
        raise ValueError(f"{describe_data(data)} has {', '.join(like)} and no {name}: say which ({option})")
    return like[0]


def _preferred(splits: Mapping[str, Any], prefer: Sequence[str]) -> list[str]:
    """Those of `prefer` that are there; else the only split that begins with one of them (validation_partial)."""
    there = [name for name in prefer if name in splits]
    like = there or [split for split in splits if split.startswith(tuple(f"{name}_" for name in prefer))]
    if not there and len(like) > 1:
        raise ValueError(f"{', '.join(like)} are there and no {prefer[0]}: say which to score on (--eval-split)")
    return like


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


def _read_files(files: list[Path], *, stream: bool) -> Any:
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
        if kind == "json" and not _holds_objects(file):
            raise ValueError(f"{file} is no JSON of rows in UTF-8: objects, one a line, or a list of them")
    try:
        names = [str(file) for file in files]
        rows = datasets.load_dataset(kind, data_files=names, split="train", streaming=stream, **options)
        return rows if stream else _readable(rows)
    except Exception as error:  # each format fails with its own library's exceptions, wrapped twice
        raise ValueError(f"{files[0]} cannot be read as {kind}: {_root_cause(error)}") from error


def _readable(rows: "Dataset") -> "Dataset":
    """Arrow takes strings as they come; here they are seen to be UTF-8, before a row is read as text."""
    for table in rows.with_format("arrow").iter(_TOGETHER):
        table.validate(full=True)
    return rows


def _has_rows(file: Path) -> bool:
    with file.open(encoding="utf-8", errors="replace") as lines:
        return sum(1 for _, line in zip(range(10_000), lines, strict=False) if line.strip()) > 1


def _holds_objects(file: Path) -> bool:
    # pyarrow's reader ends the whole process at a file that is nothing but null (26.0.1).
    with file.open("rb") as data:
        begins = data.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()
    return begins.startswith((b"{", b"["))


def _from_hub(name: str, *, stream: bool) -> dict[str, Any]:
    datasets = require("datasets")
    failure: Exception | None = None
    for address in _addresses(name):
        try:
            return dict(datasets.load_dataset(*address, streaming=stream))
        except Exception as error:
            failure = failure or error
    near = get_close_matches(Path(name).name, [path.name for path in Path(name).parent.glob("*")], n=1)
    meant = f"did you mean {Path(name).parent / near[0]}? else " if near else ""
    raise OSError(
        f"{name!r} is no local file or folder, and loading it from the Hugging Face hub failed "
        f"({_root_cause(failure)}): {meant}check the name and the connection"
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
    return " ".join(lines[:2]).removesuffix(" in None") if lines else type(error).__name__
