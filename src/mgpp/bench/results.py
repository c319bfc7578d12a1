"""Files of results: a list of entries, to which every measurement adds one."""

import json
from pathlib import Path
from typing import Any

from mgpp.disk import file_in_the_way, write_whole


def append(path: Path, result: dict[str, Any]) -> None:
    """Results are added, never edited."""
    earlier = earlier_in(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps([*earlier, result], indent=1) + "\n")


def earlier_in(path: Path) -> list[Any]:
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file (--output)")
    file = file_in_the_way(path.parent)
    if file is not None:
        raise ValueError(f"{file} is a file: name another place (--output)")
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise ValueError(f"{path} holds no list of results to add to: name another file (--output)")
    return found
