"""This package's C++, compiled by the machine's own compiler at first use, and kept."""

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

COMPILERS = ("c++", "g++", "clang++")
# No -ffast-math: linked into a library it would turn off subnormal numbers for the whole process.
FLAGS = ("-std=c++17", "-O3", "-fPIC")
SECONDS = 60

Made = TypeVar("Made")


class NoKernel(RuntimeError):
    """There is no compiled kernel here, and why."""


class _Hangs(NoKernel):
    """The compiler does not come to an end, and would not at the next attempt."""


def load(
    sources: Sequence[Path],
    make: Callable[[ctypes.CDLL, str], Made],
    *,
    flags: Sequence[str] = (),
    march: str = "native",
) -> Made:
    """What `make` makes of the sources as one library for a -march, from the cache or newly compiled, and the
    compiler's name. Headers stand among the sources.

    Raises NoKernel, with the reason, where there is none. MGPP_COMPILE=0 asks for that.
    """
    if os.environ.get("MGPP_COMPILE") == "0":
        raise NoKernel("MGPP_COMPILE=0")
    compiler = next(filter(None, map(shutil.which, [*filter(None, [os.environ.get("CXX")]), *COMPILERS])), None)
    if compiler is None:
        raise NoKernel(f"no C++ compiler ({', '.join(COMPILERS)}, or $CXX): install g++")
    name = _output(compiler, "--version").partition("\n")[0]
    failures = []
    for to_compile, to_link in _attempts(march):
        try:
            library = _compiled(sources, compiler, name, [*FLAGS, *flags, *to_compile], to_link)
            return make(ctypes.CDLL(str(library)), name)
        except _Hangs:
            raise
        except (NoKernel, OSError, AttributeError) as failure:  # the last: it lacks a function
            failures.append(" ".join(str(failure).split())[-200:])
    raise NoKernel(f"{compiler} could not build the kernel: {failures[0]}")


def _attempts(march: str) -> Iterator[tuple[list[str], list[str]]]:
    """Flags to compile and to link with, the best first."""
    target = [f"-march={march}"]
    # Not linked to OpenMP: its symbols are then torch's own, so one pool of threads serves both. With a second pool the
    # threads of the first, still spinning, would have to be waited for.
    yield [*target, "-fopenmp"], []
    yield [*target, "-fopenmp"], ["-fopenmp"]
    yield target, []


def _compiled(sources: Sequence[Path], compiler: str, name: str, to_compile: list[str], to_link: list[str]) -> Path:
    contents = [source.read_bytes() for source in sources]
    made_of = (*contents, compiler, name, to_compile, to_link, _processor())
    folder, known = _cache(), f"{sources[0].stem}-{_digest(repr(made_of).encode())}"
    for library in folder.glob(f"{known}-*.so"):
        if _is_whole(library):
            return library
        with contextlib.suppress(OSError):
            library.unlink()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made, objects = Path(scratch) / "made.so", []
        for source in (source for source in sources if source.suffix == ".cpp"):
            objects.append(f"{Path(scratch) / source.stem}.o")
            _output(compiler, *to_compile, "-c", str(source), "-o", objects[-1])
        _output(compiler, "-shared", *to_link, *objects, "-o", str(made))
        library = folder / f"{known}-{_digest(made.read_bytes())}.so"
        os.replace(made, library)  # at once: two processes may build at the same time
    return library


def _is_whole(library: Path) -> bool:
    """By the digest in its name: to load one of which a part is missing may end the process."""
    try:
        return library.stem.rpartition("-")[2] == _digest(library.read_bytes())
    except OSError:
        return False


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:20]


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as failure:
        raise _Hangs(f"{command[0]}: no answer in {SECONDS} seconds") from failure
    except OSError as failure:
        raise NoKernel(f"{command[0]}: {failure}") from failure
    if done.returncode:
        raise NoKernel(f"{command[0]}: {done.stderr or done.stdout}")
    return done.stdout


@functools.cache
def _cache() -> Path:
    """$MGPP_CACHE, or ~/.cache/mgpp; or a folder of this process where that cannot be written."""
    try:
        folder = Path(os.environ.get("MGPP_CACHE") or Path.home() / ".cache" / "mgpp")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # a user without a home is a RuntimeError
        return Path(tempfile.mkdtemp(prefix="mgpp-"))


def _processor() -> str:
    """What -march=native depends on: a home folder may be shared by machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    marks = ("model name", "flags", "Features", "CPU part")
    return platform.machine() + "".join(sorted({line for line in lines if line.startswith(marks)}))
