"""kill -9 at random moments of `mgpp prune`, resumed each time, until so many have been survived.

    python -m tests.reliability.kills --kills 40 --output benchmarks/results/cpu-kills.json

Every time the run comes to its end its folder is compared with that of a run nobody disturbed, byte for byte, and it is
begun anew. Fails at the first difference.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from mgpp.run.folder import RESULT_FILE
from tests.reliability.forked import ROOT
from tests.reliability.result import report
from tests.reliability.runs import command, go_on, is_finished, require_same, save_given, stage, start_anew

# Told of the words and after how many seconds of the run to kill it; the exit code.
Session = Callable[[list[str], float | None], int]


def survive(session: Session, words: list[str], folder: Path, whole: Path, moments: Iterator[float]) -> Iterator[str]:
    """Yields the stage of each kill; whenever the run is finished it must be `whole`. A kill after that is none."""
    while True:
        code = session(go_on(words, folder), next(moments))
        if code == -9 and not is_finished(folder):
            yield stage(folder)
            continue
        assert code in (0, -9), f"exit code {code}"
        require_same(folder, whole)
        start_anew(folder)


def draw(seed: int, longest: float) -> Iterator[float]:
    chance = random.Random(seed)
    while True:
        yield chance.uniform(0, longest)


def process(words: list[str], after: float | None) -> int:
    """A process of its own. The clock starts when it is about to train: before that there is nothing to lose."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryFile() as out:
        started = subprocess.Popen(
            [sys.executable, "-m", "mgpp", *words], stdout=out, stderr=subprocess.PIPE, env=environment
        )
        assert started.stderr is not None
        before = _until_training(started.stderr)
        try:
            # communicate, so that what it says has somewhere to go
            said = started.communicate(timeout=after)[1]
        except subprocess.TimeoutExpired:
            started.kill()
            said = started.communicate()[1]
    if started.returncode not in (0, -9):
        print((before + said).decode(), file=sys.stderr)
    return started.returncode


def _until_training(lines: IO[bytes]) -> bytes:
    heard = b""
    while line := lines.readline():
        heard += line
        if line.startswith(b"before training"):
            break
    return heard


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save-steps", type=int, default=2)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mgpp-kills-") as place:
        rows = measure(asked, Path(place))
    print(f"{asked.kills} kills survived, every finished run the undisturbed one byte for byte")
    report("kills", rows, asked.output, kills=asked.kills, seed=asked.seed)


def measure(asked: argparse.Namespace, place: Path) -> list[dict[str, Any]]:
    given = save_given(place)
    whole, folder = place / "whole", place / "out"
    length = {"steps": asked.steps, "save_steps": asked.save_steps}
    assert process(command(given, whole, **length), None) == 0
    # Up to as long as it trains: most sessions are killed, and some get to the end.
    moments = draw(asked.seed, json.loads((whole / RESULT_FILE).read_text())["seconds"])
    stages: Counter[str] = Counter()
    for number, found in enumerate(survive(process, command(given, folder, **length), folder, whole, moments), 1):
        stages[found] += 1
        print(f"kill {number}: {found}", file=sys.stderr)
        if number == asked.kills:
            break
    while not is_finished(folder):
        assert process(go_on(command(given, folder, **length), folder), None) == 0
    require_same(folder, whole)
    return [{"name": name, "kills": count} for name, count in stages.most_common()]


if __name__ == "__main__":
    main()
