"""The newest entry of a results file as a Markdown table: printed, or filled into the pages that name it.

python benchmarks/table.py                              # all pages
python benchmarks/table.py benchmarks/results/NAME.json # printed
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"

COLUMNS = {
    "name": "",
    "batch": "batch",
    "weights": "weights",
    "launches": "launches",
    "tokens": "tokens",
    "median_ms": "ms, median (middle half)",
    "ratio": "against plain",
    "speedup": "times as fast as dense torch fp32",
    "error": "largest error",
    "device_ms": "device alone, ms",
    "device_ratio": "device against plain",
    "host_ms": "host in the optimizer, ms",
    "optimizer_ms": "optimizer step, ms",
    "event_s": "an event, seconds",
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
    "kills": "kills survived",
    "moments": "moments survived",
    "after_warm_up_mib": "MiB after the warm-up",
    "at_the_end_mib": "MiB at the end",
    "growth_mib": "most above the warm-up, MiB",
}


def cell(key: str, row: dict[str, Any]) -> str:
    value = row.get(key)
    if value is None:
        return ""
    if key == "median_ms":
        return f"{value:.3g} ({row['low_ms']:.3g} to {row['high_ms']:.3g})"
    if key in ("ratio", "speedup"):
        return f"{value:.3f}"
    if key == "name":
        return str(value).split("<")[0].replace("void ", "")  # a kernel of torch's without what it is made for
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(path: Path) -> str:
    entry = json.loads(path.read_text())[-1]
    rows = entry["rows"]
    keys = [key for key in COLUMNS if any(row.get(key) is not None for row in rows)]
    lines = ["| " + " | ".join(COLUMNS[key] for key in keys) + " |", "|" + "---|" * len(keys)]
    lines += ["| " + " | ".join(cell(key, row) for key in keys) + " |" for row in rows]
    commit = f", commit {entry['commit'][:7]}" if entry.get("commit") else ""
    where = ", ".join(str(value) for value in (*entry["hardware"].values(), *_versions(entry)) if value is not None)
    return "\n".join([*lines, "", f"`{entry['command']}`, {entry['at'][:10]}{commit}: {where}."])


def _versions(entry: dict[str, Any]) -> list[str]:
    return [f"{name} {version}" for name, version in entry["versions"].items() if name != "mgpp"]


def fill(page: str) -> str:
    """Between `<!-- results: NAME -->` and `<!-- end -->` stands the newest entry of results/NAME.json."""

    def newest(block: re.Match[str]) -> str:
        return f"{block[1]}\n{table(RESULTS / f'{block[2]}.json')}\n\n{block[3]}"

    return re.sub(r"(<!-- results: (\S+) -->\n).*?(<!-- end -->)", newest, page, flags=re.DOTALL)


def main(*names: str) -> None:
    for page in [*map(Path, names)] or [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        if page.suffix == ".json":
            print(table(page))
        else:
            page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
