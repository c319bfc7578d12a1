"""One case run in this process, and judged: a success, one clear line with exit code 2, or a defect."""

import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any
from unittest import mock

from mgpp.cli import main
from tests.fuzz.case import Case, make
from tests.fuzz.world import World, snapshot

LIMIT = 30  # seconds for one case
LONGEST_LINE = 1_000
STEPS = 3  # of a training that was asked to go on for longer; it is then interrupted, as by Ctrl-C

# What Python and its libraries say by themselves: it names no file, no option and no cure.
VAGUE = re.compile(
    r"\w+(Error|Exception)\b|could not convert|invalid literal|Expecting |Extra data|embedded null|'[\w-]+' codec|"
    r"list index|math domain|\[Errno|maximum recursion|'\w+' must|unsupported |Unterminated|[\w' ]+ not supported"
)

# A case that was not refused: what it would go on to do takes too long, and is tested elsewhere.
LONG = ("measure_overhead", "measure_selection", "measure_decoder", "measure_inference", "measure_semi_structured")


@dataclass(frozen=True)
class Outcome:
    """`kind` is success, refused (2), stopped (1), interrupted (130), launched (cells of a grid), or a defect."""

    kind: str
    told: str = ""
    seconds: float = 0.0

    @property
    def is_defect(self) -> bool:
        return self.kind.startswith("DEFECT")


class OutOfTime(BaseException):
    pass


def try_case(case: Case, world: World) -> Outcome:
    """In a folder of its own, which is its home and its temporary folder, too, and is gone afterwards."""
    place = world.room / "case"
    folder = place / "here"
    shutil.rmtree(place, ignore_errors=True)
    for path in (folder, place / "home", place / "tmp"):
        path.mkdir(parents=True)
    words = make(case, folder, world.places)
    before, began = snapshot(place), time.perf_counter()
    code, out, err, launched, late = _run(words, folder, place)
    seconds = time.perf_counter() - began
    left = _changes(before, snapshot(place))
    altered = world.restore()
    if altered and code != 0:
        left.append("the files that it was given")
    if late:
        return Outcome("DEFECT: out of time", err[-300:], seconds)
    kind = judge(code, out, err, left=left, launched=launched, resumes="--resume" in words)
    lines = err.splitlines()
    return Outcome(kind, lines[-1] if lines else "", seconds)


def judge(code: int, out: str, err: str, *, left: list[str], launched: bool, resumes: bool) -> str:
    """What the exit code promises, held against what was said and what was left behind."""
    lines = err.splitlines()
    said = [line for line in lines if line.startswith("mgpp: ") and not line.startswith("mgpp: warning: ")]
    if "Traceback (most recent call last)" in err + out:
        return "DEFECT: traceback"
    if code == 0:
        in_temporary = [path for path in left if path.startswith("tmp")]
        return f"DEFECT: left {in_temporary[0]}" if in_temporary else "success"
    if code == 1 and launched:  # cells that failed, each marked with its reason
        return "launched"
    if code not in (1, 2, 130):
        return f"DEFECT: exit code {code}"
    if len(said) != 1 or lines[-1] != said[0]:
        return "DEFECT: not one line"
    if not is_clear(said[0]):
        return "DEFECT: not a clear line"
    goes_on = "the last good checkpoint is" in said[0] or (code == 130 and "goes on from there" in said[0])
    if left and not goes_on and "is written, and pushing it" not in said[0]:
        return f"DEFECT: left {left[0]}"
    if code == 1:
        # Bad numbers are seen when they come, and so is a damaged checkpoint; all else should have been seen before.
        known = "is not finite" in said[0] or re.search(r"is (nan|inf)", said[0]) or resumes
        return "stopped" if known else "DEFECT: noticed too late"
    return {2: "refused", 130: "interrupted"}[code]


def is_clear(line: str) -> bool:
    told = line.removeprefix("mgpp: ")
    if not 12 <= len(told) <= LONGEST_LINE or not told.isprintable():
        return False
    return "not your fault" not in told and VAGUE.match(told) is None


def _changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    found = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return [path.partition(f"{os.sep}case{os.sep}")[2] for path in found]


def _run(words: list[str], folder: Path, place: Path) -> tuple[int, str, str, bool, bool]:
    out = TextIOWrapper(BytesIO(), "utf-8", "strict")
    launches: list[str] = []
    code, late = -1, False
    here = Path.cwd()
    os.chdir(folder)
    try:
        with _error_stream() as err, _surroundings(place, launches), redirect_stdout(out), _time_limit() as ran_out:
            try:
                code = main(words)
            except BaseException as error:  # main should have told it
                print(f"Traceback (most recent call last): {type(error).__name__}: {error}", file=sys.stderr)
            late = bool(ran_out)
    finally:
        os.chdir(here)
    out.flush()
    printed = out.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]
    return code, printed, err[0], bool(launches), late


@contextmanager
def _error_stream() -> Iterator[list[str]]:
    """All that goes to stderr, of libraries that have kept its number, too."""
    told: list[str] = []
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        stream = open(os.dup(file.fileno()), "w", buffering=1, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        try:
            with stream, redirect_stderr(stream):
                yield told
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            told.append(file.read().decode("utf-8", "replace"))


@contextmanager
def _time_limit() -> Iterator[list[bool]]:
    ran_out: list[bool] = []

    def ring(*_: object) -> None:
        ran_out.append(True)
        raise OutOfTime

    old = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LIMIT)
    try:
        yield ran_out
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


@contextmanager
def _surroundings(place: Path, launches: list[str]) -> Iterator[None]:
    """What would take minutes stands still here: trainings beyond a few steps, measurements, processes of a grid."""
    import mgpp.cli.bench
    import mgpp.cli.demo
    from mgpp.cli.progress import TrainingBar

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    def step_end(self: Any, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step >= STEPS:
            raise KeyboardInterrupt

    def start_process(module: str, *_: Any) -> Any:
        launches.append(module)
        if len(launches) > 4:
            raise KeyboardInterrupt
        return mock.Mock(stdout=BytesIO(b'{"reason": "not run here"}'), stdin=None, wait=lambda *_: 1, poll=lambda: 1)

    environment = {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp")}
    environment["MPLCONFIGDIR"] = str(place.parent / "matplotlib")
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, environment))
        stack.enter_context(mock.patch.object(tempfile, "tempdir", str(place / "tmp")))
        stack.enter_context(mock.patch.object(TrainingBar, "on_step_end", step_end))
        stack.enter_context(mock.patch("mgpp.compare.pool.start_process", start_process))
        stack.enter_context(mock.patch("mgpp.sweep.trial.start_process", start_process))
        stack.enter_context(mock.patch.object(mgpp.cli.demo, "run_one", interrupt))
        stack.enter_context(mock.patch.object(mgpp.cli.demo, "prepare"))
        stack.enter_context(mock.patch("mgpp.cli.watch.time", mock.Mock(sleep=interrupt)))
        for name in LONG:
            stack.enter_context(mock.patch.object(mgpp.cli.bench, name, interrupt))
        yield
