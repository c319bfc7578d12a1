"""`records.jsonl`: what happened in a run, one JSON object a line, in order. Figures and pages read only this.

Records hold no clock times, so that a resumed run's file is the undisturbed run's, byte for byte.
"""

import json
import os
from pathlib import Path
from typing import Any

from mgpp.disk import on_disk, write_whole


def append(path: Path, record: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, allow_nan=False) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Every whole record; a last line that a crash left unfinished is not one."""
    with path.open("rb") as file:
        return [_parsed(line, number, path) for number, line in enumerate(file, 1) if line.endswith(b"\n")]


def _parsed(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged (line {number}: {error}): mend or remove that line") from None
    if not isinstance(record, dict) or (type(record.get("event")), type(record.get("step"))) != (str, int):
        raise ValueError(f"{path} is damaged (line {number} is no record of a step): mend or remove that line")
    return record


def cut(path: Path, size: int) -> None:
    """Forget what came after the first `size` bytes: what follows a run's last step has no later step to tell it by."""
    if path.exists() and path.stat().st_size > size:
        os.truncate(path, size)
        on_disk(path)


def rewind(path: Path, step: int) -> None:
    """Forget what came after `step`: a run that resumes there will write it again."""
    if not path.exists():
        return
    kept = [record for record in read(path) if record["step"] <= step]
    write_whole(path, "".join(json.dumps(record, allow_nan=False) + "\n" for record in kept))
