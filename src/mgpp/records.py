"""`records.jsonl`: what happened in a run, one JSON object a line, in order. Figures and pages read only this.

Records hold no clock times, so that a resumed run's file is the undisturbed run's, byte for byte.
"""

import json
from pathlib import Path
from typing import Any

from mgpp.disk import write_whole


def append(path: Path, record: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, allow_nan=False) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Every whole record; a last line that a crash left unfinished is not one."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def rewind(path: Path, step: int) -> None:
    """Forget what came after `step`: a run that resumes there will write it again."""
    if not path.exists():
        return
    kept = [record for record in read(path) if record["step"] <= step]
    write_whole(path, "".join(json.dumps(record, allow_nan=False) + "\n" for record in kept))
