"""Print the newest entry of a results file as a Markdown table."""

import json
import sys
from pathlib import Path
from typing import Any

COLUMNS = {
    "name": "",
    "batch": "batch",
    "weights": "weights",
    "tokens": "tokens",
    "median_ms": "ms, median (middle half)",
    "ratio": "against plain",
    "speedup": "times as fast as dense torch fp32",
    "error": "largest error",
    "device_ms": "device alone, ms",
    "device_ratio": "device against plain",
    "optimizer_ms": "optimizer step, ms",
    "kept_bytes": "bytes kept",
    "step_bytes": "bytes for a moment",
    "extra_bytes": "bytes for a moment",
    "peak_bytes": "peak bytes",
    "weight_bytes": "bytes of the weights",
    "apart": "outputs apart",
    "bytes": "bytes",
    "times_smaller": "times smaller",
    "save_cpu_s": "CPU seconds to save",
    "load_cpu_s": "to load",
    "max_error": "largest error",
}


def cell(key: str, row: dict[str, Any]) -> str:
    value = row.get(key)
    if value is None:
        return ""
    if key == "median_ms":
        return f"{value:.3g} ({row['low_ms']:.3g} to {row['high_ms']:.3g})"
    if key in ("ratio", "speedup"):
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def main(path: str) -> None:
    entry = json.loads(Path(path).read_text())[-1]
    rows = entry["rows"]
    keys = [key for key in COLUMNS if any(row.get(key) is not None for row in rows)]
    print("| " + " | ".join(COLUMNS[key] for key in keys) + " |")
    print("|" + "---|" * len(keys))
    for row in rows:
        print("| " + " | ".join(cell(key, row) for key in keys) + " |")
    commit = f", commit {entry['commit']}" if entry.get("commit") else ""
    print(f"\n`{entry['command']}`, {entry['at']}{commit}: {entry['hardware']}, {entry['versions']}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
