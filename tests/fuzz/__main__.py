"""`python -m tests.fuzz --cases 10000`: run the cases of so many seeds, and say how they came out.

`--show SEED` prints one case and what it gives; `--keep` adds those that failed to the corpus, which CI runs. The cases
run in a process that this one watches: one that dies is a defect, and the next goes on after it.
"""

import argparse
import faulthandler
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).with_name("corpus.jsonl")
AT_ONCE = 1_000  # cases to a process: what a library never gives back is given back with it
MEMORY = 12 << 30  # bytes of address space: a case that asks for more gets an error, and the machine lives
TRIMMED = 100  # cases, after which the rows that `datasets` has cached go


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    asked.add_argument("--cases", type=int, default=10_000)
    asked.add_argument("--seed", type=int, default=0, help="the first one")
    asked.add_argument("--keep", action="store_true", help="add what failed to the corpus")
    asked.add_argument("--show", type=int, metavar="SEED")
    asked.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.show is not None:
        return _child([given.show], show=True)
    seeds = range(given.seed, given.seed + given.cases)
    if given.child:
        return _child(seeds)
    began = time.perf_counter()
    found = list(_told(_run(seeds)))
    _summarise(found, seeds, time.perf_counter() - began)
    defects = [one for one in found if one["kind"].startswith("DEFECT")]
    if given.keep:
        _keep(defects)
    return 1 if defects else 0


def _run(seeds: range) -> Iterator[dict[str, Any]]:
    at = seeds.start
    while at < seeds.stop:
        count = min(AT_ONCE, seeds.stop - at)
        words = [sys.executable, "-m", "tests.fuzz", "--child", f"--seed={at}", f"--cases={count}"]
        last = at + count
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
            assert process.stdout is not None
            for line in process.stdout:
                told = json.loads(line)
                at = told["seed"] + 1
                yield told
        if process.returncode == 1:  # an exception of the fuzz itself, which stands above
            raise SystemExit(1)
        if at < last:
            yield {"seed": at, "area": "?", "kind": f"DEFECT: died ({process.returncode})", "told": "", "seconds": 0.0}
            at += 1


def _told(found: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, one in enumerate(found, 1):
        if one["kind"].startswith("DEFECT"):
            print(f"seed {one['seed']}: {one['kind']} {one['told'][:300]}", file=sys.stderr, flush=True)
        if number % 500 == 0:
            print(f"{number:,} cases", file=sys.stderr, flush=True)
        yield one


def _child(seeds: Any, *, show: bool = False) -> int:
    room = Path(tempfile.mkdtemp(prefix="mgpp-fuzz-"))
    cache = room / "cache"
    os.environ |= {"HF_DATASETS_CACHE": str(cache), "MGPP_CACHE": str(room / "kernels"), "HF_HUB_OFFLINE": "1"}
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "MGPP_COMMIT": "fuzz", "MPLBACKEND": "agg"}
    try:
        _try_all(seeds, room, cache, show=show)
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return 0


def _try_all(seeds: Any, room: Path, cache: Path, *, show: bool) -> None:
    import resource

    from tests.fuzz.generate import case_of
    from tests.fuzz.trial import LIMIT, try_case
    from tests.fuzz.world import World

    world = World(room)
    stderr = os.fdopen(os.dup(2), "w")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    for number, seed in enumerate(seeds, 1):
        case = case_of(seed)
        if show:
            print(json.dumps({"words": case.words, "files": case.files}, indent=1)[:20_000])
        faulthandler.dump_traceback_later(3 * LIMIT, exit=True, file=stderr)  # where no signal is heard
        outcome = try_case(case, world)
        faulthandler.cancel_dump_traceback_later()
        told = {"seed": seed, "area": case.area, "kind": outcome.kind, "told": outcome.told[:2_000]}
        print(json.dumps({**told, "seconds": round(outcome.seconds, 3)}), flush=True)
        if number % TRIMMED == 0:
            shutil.rmtree(cache, ignore_errors=True)


def _summarise(found: list[dict[str, Any]], seeds: range, seconds: float) -> None:
    counts = Counter((one["area"], "defect" if one["kind"].startswith("DEFECT") else one["kind"]) for one in found)
    kinds = sorted({kind for _, kind in counts})
    print(f"seeds {seeds.start} to {seeds.stop - 1}: {len(found):,} cases in {seconds:,.0f} s")
    print(f"{'':10}" + "".join(f"{kind:>13}" for kind in (*kinds, "all")))
    for area in (*sorted({area for area, _ in counts}), None):
        line = [sum(n for (a, k), n in counts.items() if area in (None, a) and k == kind) for kind in kinds]
        print(f"{area or 'all':10}" + "".join(f"{number:>13,}" for number in (*line, sum(line))))
    longest = max(found, key=lambda one: one["seconds"])
    print(f"the longest took {longest['seconds']:.1f} s (seed {longest['seed']})")


def _keep(defects: list[dict[str, Any]]) -> None:
    from tests.fuzz.generate import case_of

    with CORPUS.open("a", encoding="utf-8") as file:
        for one in defects:
            told = {"seed": one["seed"], "was": f"{one['kind']}: {one['told'][:200]}"}
            file.write(json.dumps({**told, **json.loads(case_of(one["seed"]).to_json())}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
