"""Files of results: a list of entries, to which every measurement adds one."""

import json
from pathlib import Path
from typing import Any

from mgpp.disk import write_whole


def append(path: Path, result: dict[str, Any]) -> None:
    """Results are added, never edited."""
    earlier = earlier_in(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps([*earlier, result], indent=1) + "\n")


def earlier_in(path: Path) -> list[Any]:
    around = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir() or not around.is_dir():
        where, what = (path, "folder") if path.is_dir() else (around, "file")
        raise ValueError(f"{where} is a {what}: name another file (--output)")
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise ValueError(f"{path} holds no list of results to add to: name another file (--output)")
    return found
