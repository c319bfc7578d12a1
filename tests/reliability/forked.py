"""Runs of `mgpp` on a disk that fails: each in a process forked from one that has imported everything.

A run then takes a second or two instead of ten, so that hundreds of moments can be tried. `python -m
tests.reliability.forked LIBRARY` reads orders from stdin and answers each with one line of JSON.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("disk.c")
ROOT = Path(__file__).parents[2]
KILL = 0  # in the place of an errno


def compiler() -> str | None:
    return shutil.which("cc") if sys.platform == "linux" else None


@dataclass(frozen=True)
class Ended:
    """`code` as subprocess has it: -9 for a process that was killed. `calls`: to the disk, where it was not."""

    code: int
    out: str
    err: str
    calls: int


class Forked:
    """Call it with the words of a command.

    With `at` the disk under `folder` fails at that call to it; with `after` the process is killed so many seconds after
    its start.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mgpp-disk-")
        library = Path(self._folder.name) / "disk.so"
        words = [compiler() or "cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"]
        subprocess.run(words, check=True)
        environment = os.environ | {
            "LD_PRELOAD": str(library),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        }
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.reliability.forked", str(library)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __call__(
        self, words: Sequence[object], folder: Path, *, at: int = 0, error: int = KILL, after: float | None = None
    ) -> Ended:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        order = {"words": [str(word) for word in words], "folder": str(folder)}
        order |= {"at": at, "error": error, "after": after}
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        assert answer, "the process that forks is gone"
        return Ended(**json.loads(answer))

    def close(self) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.terminate()  # a process that was forked meanwhile may hold the pipe open, and no end would come
        self._server.wait()
        self._server.stdout.close()
        self._folder.cleanup()


def serve(library: str) -> None:
    from mgpp.cli.app import main

    _import_all()
    disk = ctypes.CDLL(library)
    disk.calls.restype = ctypes.c_long
    disk.arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        order = json.loads(line)
        with tempfile.TemporaryDirectory(prefix="mgpp-forked-") as folder:
            said = Path(folder)
            child = os.fork()
            if child == 0:
                _run(main, disk, order, said)
            status = _wait(child, order["after"])
            calls = said / "calls"
            told = {
                "code": os.waitstatus_to_exitcode(status),
                "out": (said / "out").read_text(encoding="utf-8"),
                "err": (said / "err").read_text(encoding="utf-8"),
                "calls": int(calls.read_text()) if calls.exists() else 0,
            }
        answers.write(json.dumps(told) + "\n")
        answers.flush()


def _wait(child: int, after: float | None) -> int:
    end = time.monotonic() + (after or 0.0)
    while after is not None and time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.001)
    if after is not None:
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _import_all() -> None:
    """What the command, transformers and the tasks import only when they are used."""
    import datasets  # noqa: F401
    import sklearn.metrics  # noqa: F401
    import transformers.models.bert.modeling_bert
    import transformers.trainer  # noqa: F401

    import mgpp.cli.export
    import mgpp.cli.train  # noqa: F401


def _run(main: Any, disk: Any, order: dict[str, Any], said: Path) -> None:
    """In the forked process; never returns."""
    code = 1
    try:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(said / name, os.O_CREAT | os.O_WRONLY), number)
        disk.arm(order["folder"].encode(), order["at"], order["error"])
        code = main(order["words"])
        (said / "calls").write_text(str(disk.calls()))
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
