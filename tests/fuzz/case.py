"""A case: the words of a command, and how its files are made. Plain JSON, so that it can be kept when its seed's draw
has become another one."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.artifact.forged import Forged
from tests.fuzz.odd import HUGE, HUGE_LETTERS


@dataclass(frozen=True, kw_only=True)
class Case:
    """`files` are made in order, by path in the case's folder. Each is one of

    {"text": ..., "encoding": ...}   {"parquet": [[name, values], ...]}   {"tree": a folder of the world}
    {}: the file that stands there already, from a tree      {"link": where it points}

    and may have "edits": [["cut", share], ["flip", share, byte], ["insert", share, text], ["set", path, value],
    ["drop", path], ["forge", path, value], ["header", path, value]]. <name> stands for a folder of the world.
    """

    area: str
    words: list[str]
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> "Case":
        known = json.loads(line)
        return cls(**{key: known[key] for key in ("area", "words", "files")})


def make(case: Case, folder: Path, places: Mapping[str, Path]) -> list[str]:
    """Write the case's files; returns its words as they are typed."""
    for name, recipe in case.files.items():
        _write(folder / name, recipe, places)
    return [_filled(word, places) for word in case.words]


def _filled(text: str, places: Mapping[str, Path]) -> str:
    for name, place in places.items():
        text = text.replace(f"<{name}>", str(place))
    return text.replace(HUGE, "x" * HUGE_LETTERS)


def _write(path: Path, recipe: Mapping[str, Any], places: Mapping[str, Path]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if "tree" in recipe:
        shutil.copytree(places[recipe["tree"]], path, dirs_exist_ok=True)
    elif "link" in recipe:
        path.unlink(missing_ok=True)
        path.symlink_to(_filled(recipe["link"], places))
    elif "parquet" in recipe:
        _write_parquet(path, recipe["parquet"], places)
    elif "text" in recipe:
        text = _filled(recipe["text"], places)
        encoding = recipe.get("encoding", "utf-8")
        path.write_bytes(text.encode(encoding, "surrogatepass" if encoding.startswith("utf") else "replace"))
    for edit in recipe.get("edits", ()):
        path.write_bytes(_edited(path, *edit))


def _write_parquet(path: Path, columns: list[tuple[str, list[Any]]], places: Mapping[str, Path]) -> None:
    import pyarrow
    from pyarrow import parquet

    def write(values_of: list[list[Any]]) -> None:
        arrays = [pyarrow.array(values) for values in values_of]
        parquet.write_table(pyarrow.Table.from_arrays(arrays, names=[name for name, _ in columns]), path)

    filled = [
        [_filled(value, places) if isinstance(value, str) else value for value in values] for _, values in columns
    ]
    try:
        write(filled)
    except (pyarrow.ArrowException, OverflowError):  # what parquet cannot hold
        write([[repr(value) for value in values] for values in filled])


def _edited(path: Path, kind: str, where: Any, *what: Any) -> bytes:
    data = path.read_bytes() if path.is_file() else b""
    if kind in ("cut", "flip", "insert"):
        at = int(where * len(data))
        if kind == "cut":
            return data[:at]
        if kind == "insert":
            return data[:at] + what[0].encode("utf-8", "surrogatepass") + data[at:]
        return data[:at] + bytes([data[at] ^ what[0]]) + data[at + 1 :] if data else data
    if kind in ("forge", "header"):
        forged = Forged(data)
        if kind == "header":
            return forged.lie(lambda header: put(header, where, what[0]))
        put({"layout": forged.layout, "header": forged.header, "metadata": forged.metadata}, where, what[0])
        return forged.write()
    lines = path.suffix == ".jsonl"
    value = [json.loads(line) for line in data.splitlines()] if lines else json.loads(data)
    put(value, where, *what)
    made = "".join(json.dumps(line) + "\n" for line in value) if lines else json.dumps(value)
    return made.replace(HUGE, "x" * HUGE_LETTERS).encode("utf-8", "surrogatepass")


def put(holder: Any, path: list[Any], *value: Any) -> None:
    """Set what stands at `path`, or drop it if no value is given. A number picks a dict's entry by its place."""
    *way, last = path
    for step in way:
        if not isinstance(holder, dict | list) or not holder:
            return
        key = _key(holder, step)
        holder = holder.get(key) if isinstance(holder, dict) else holder[key]
    if not isinstance(holder, dict | list) or not (holder or value):
        return
    if isinstance(holder, list) and not holder:
        holder.append(value[0])
    elif value:
        holder[_key(holder, last)] = value[0]
    elif _key(holder, last) in (holder if isinstance(holder, dict) else range(len(holder))):
        del holder[_key(holder, last)]


def _key(holder: Any, step: Any) -> Any:
    if isinstance(holder, list):
        return (step if isinstance(step, int) else 0) % len(holder)
    if isinstance(step, int) and holder:
        return list(holder)[step % len(holder)]
    return step
