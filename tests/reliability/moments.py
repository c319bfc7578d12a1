"""Every call by which `mgpp prune` changes the disk, as the moment at which it is killed, or at which the disk is full.

    python -m tests.reliability.moments kill --output benchmarks/results/cpu-moments.json
    python -m tests.reliability.moments full --output benchmarks/results/cpu-moments.json

The run is resumed each time, and must come out as the undisturbed one, byte for byte. `--every 5` tries a fifth of the
moments.
"""

import argparse
import errno
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.reliability.forked import KILL, Ended, Forked
from tests.reliability.result import report
from tests.reliability.runs import command, go_on, is_finished, require_same, save_given, stage, start_anew

ERRORS = {"kill": KILL, "full": errno.ENOSPC}


def count(run: Forked, words: list[str], folder: Path, fault: str) -> int:
    """How many such calls an undisturbed run makes; its folder stays."""
    ended = run(words, folder, at=0, error=ERRORS[fault])
    assert ended.code == 0, ended.err
    return ended.calls


def go_through(run: Forked, words: list[str], folder: Path, whole: Path, *, at: int, fault: str) -> tuple[str, Ended]:
    """The run with the fault at that call, then without; how far it had come, and how it ended the first time."""
    ended = run(words, folder, at=at, error=ERRORS[fault])
    found = "after the end" if is_finished(folder) else stage(folder) if fault == "kill" else _told(ended)
    if not is_finished(folder):
        again = run(go_on(words, folder), folder)
        assert again.code == 0, again.err
    require_same(folder, whole)
    start_anew(folder)
    return found, ended


def is_one_line(ended: Ended) -> bool:
    """What a person reads when a run fails: why, in one line, after what was told before."""
    told = [line for line in ended.err.splitlines() if line.startswith("mgpp: ")]
    return "Traceback" not in ended.err and len(told) == 1 and ended.err.splitlines()[-1] == told[0]


def _told(ended: Ended) -> str:
    """A full disk is tidied up after: the folder no longer tells."""
    assert is_one_line(ended), ended.err
    assert "No space left" in ended.err or "the disk is full" in ended.err, ended.err
    if ended.code == 2:
        return "refused at the start"
    return "stopped, a checkpoint stands" if "last good checkpoint" in ended.err else "stopped, nothing is left"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fault", choices=list(ERRORS))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mgpp-moments-") as place:
        rows = measure(asked, Path(place))
    tried = sum(row["moments"] for row in rows)
    print(f"{asked.fault}: {tried} moments survived, every finished run the undisturbed one byte for byte")
    report(f"moments-{asked.fault}", rows, asked.output)


def measure(asked: argparse.Namespace, place: Path) -> list[dict[str, Any]]:
    run, given = Forked(), save_given(place)
    whole, folder = place / "whole", place / "out"
    length = {"steps": 8, "save_steps": 3}
    calls = count(run, command(given, whole, **length), whole, asked.fault)
    print(f"{calls} calls", file=sys.stderr)
    stages: Counter[str] = Counter()
    for at in range(1, calls + 1, asked.every):
        words = command(given, folder, **length)
        found, ended = go_through(run, words, folder, whole, at=at, fault=asked.fault)
        stages[found] += 1
        print(f"{at} of {calls}: {found}, exit code {ended.code}", file=sys.stderr)
    run.close()
    return [{"name": f"{asked.fault}: {name}", "moments": tried} for name, tried in stages.most_common()]


if __name__ == "__main__":
    main()
