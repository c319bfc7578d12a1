"""The compiled kernel: built by the machine's own compiler at first use, and kept."""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from mgpp.runtime.layout import Packed, pack, unpack

SOURCE = Path(__file__).with_name("spmm.cpp")
COMPILERS = ("c++", "g++", "clang++")
# No -ffast-math: linked into a library it would turn off subnormal numbers for the whole process.
FLAGS = ("-std=c++17", "-O3", "-fPIC")
SECONDS = 120


class NoKernel(RuntimeError):
    """There is no compiled kernel here, and why."""


class _Matrix(ctypes.Structure):
    """`Matrix` in spmm.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "columns", "tied")),
        *((name, ctypes.c_void_p) for name in ("values", "places", "lines", "starts")),
    )


class Kernel:
    """The loaded library."""

    def __init__(self, library: ctypes.CDLL, built_by: str) -> None:
        self._multiply = library.mgpp_multiply
        self._multiply.argtypes = (*(ctypes.c_void_p,) * 4, *(ctypes.c_int64,) * 2)
        library.mgpp_vectors.restype = ctypes.c_char_p
        self.vectors: str = library.mgpp_vectors().decode()
        self.threaded = bool(library.mgpp_threaded())
        self.built_by = built_by

    def bind(self, packed: Packed) -> "Bound":
        return Bound(self, packed)

    def __str__(self) -> str:
        return f"{self.vectors}, {'threads' if self.threaded else 'one thread'}, built by {self.built_by}"


class Bound:
    """The kernel with one layer's weights: float32 (… × columns), contiguous, and the bias → (… × rows)."""

    def __init__(self, kernel: Kernel, packed: Packed) -> None:
        self._multiply, self._rows, self._columns = kernel._multiply, packed.rows, packed.columns
        self._packed = packed  # the addresses below are its tensors'
        parts = (packed.values, packed.places, packed.lines, packed.starts)
        assert all(part.is_contiguous() for part in parts)
        self._matrix = _Matrix(packed.rows, packed.columns, packed.tied, *(part.data_ptr() for part in parts))
        self._address = ctypes.addressof(self._matrix)

    def __call__(self, x: Tensor, bias: Tensor | None) -> Tensor:
        y = x.new_empty((*x.shape[:-1], self._rows))
        at = bias.data_ptr() if bias is not None else None
        tokens, threads = x.numel() // self._columns, torch.get_num_threads()
        if self._multiply(self._address, x.data_ptr(), at, y.data_ptr(), tokens, threads):
            raise MemoryError(f"no memory to pack activations of shape {tuple(x.shape)}")
        return y


@functools.cache
def kernel() -> Kernel:
    """The kernel for this machine; raises NoKernel, with the reason, where there is none."""
    return build("native")


def build(march: str) -> Kernel:
    """The kernel for a -march, from the cache or newly compiled, and tried on one small product."""
    compiler = next(filter(None, map(shutil.which, [*filter(None, [os.environ.get("CXX")]), *COMPILERS])), None)
    if compiler is None:
        raise NoKernel(f"no C++ compiler ({', '.join(COMPILERS)}, or $CXX): install g++")
    name = _output(compiler, "--version").partition("\n")[0]
    failures = []
    for attempt in _attempts(march):
        try:
            library = ctypes.CDLL(str(_compiled(compiler, name, attempt)))
        except (NoKernel, OSError) as failure:
            failures.append(" ".join(str(failure).split())[-200:])
            continue
        made = Kernel(library, name)
        _try_out(made)
        return made
    raise NoKernel(f"{compiler} could not build the kernel: {failures[0]}")


def _attempts(march: str) -> Iterator[tuple[list[str], list[str]]]:
    """Flags to compile and to link with, the best first."""
    target = [f"-march={march}"]
    # Not linked to OpenMP: its symbols are then torch's own, so one pool of threads serves both. With a second pool the
    # threads of the first, still spinning, would have to be waited for.
    yield [*target, "-fopenmp"], []
    yield [*target, "-fopenmp"], ["-fopenmp"]
    yield target, []


def _compiled(compiler: str, name: str, attempt: tuple[list[str], list[str]]) -> Path:
    source = SOURCE.read_bytes()
    key = hashlib.sha256(repr((source, compiler, name, FLAGS, attempt, _processor())).encode()).hexdigest()[:20]
    folder = _cache()
    library = folder / f"spmm-{key}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        to_compile, to_link = attempt
        made = Path(scratch) / "spmm.so"
        _output(compiler, *FLAGS, *to_compile, "-c", str(SOURCE), "-o", f"{made}.o")
        _output(compiler, "-shared", *to_link, f"{made}.o", "-o", str(made))
        os.replace(made, library)  # at once: two processes may build at the same time
    return library


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as failure:
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


def _try_out(made: Kernel) -> None:
    for packed in (pack(weight) for weight in _small_matrices()):
        x = torch.linspace(-1, 1, 70 * packed.columns).view(70, packed.columns)
        actual, expected = made.bind(packed)(x, None), x @ unpack(packed).T
        if not torch.allclose(actual, expected, rtol=1e-4, atol=1e-4):
            raise NoKernel(f"the kernel built by {made.built_by} computes wrong numbers on this machine")


def _small_matrices() -> Iterator[Tensor]:
    weight = torch.linspace(-1, 1, 67 * 131).view(67, 131)
    yield weight * (torch.arange(67 * 131).view(67, 131) % 7 == 0)
    yield weight * (torch.arange(131) % 7 == 0)  # whole columns: in pairs
