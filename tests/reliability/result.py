"""What a check of this room found, with all that it depends on, printed and added to a file of results."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mgpp.bench.results import append
from mgpp.run.result import provenance


def report(what: str, rows: list[dict[str, Any]], output: Path | None, **more: Any) -> None:
    module = Path(sys.argv[0]).stem
    result = {
        "what": what,
        "command": " ".join(["python", "-m", f"tests.reliability.{module}", *sys.argv[1:]]),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **provenance(),
        **more,
        "rows": rows,
    }
    print(json.dumps(result, indent=1))
    if output is not None:
        append(output, result)
