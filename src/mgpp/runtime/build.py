"""The compiled kernel: built by mgpp.compiler at first use, and tried out."""

import ctypes
import functools
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from mgpp import compiler
from mgpp.compiler import NoKernel
from mgpp.runtime.layout import Packed, pack, unpack

SOURCE = Path(__file__).with_name("spmm.cpp")


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
    """The kernel for a -march, tried on two small products."""
    made = compiler.load(SOURCE, Kernel, march=march)
    _try_out(made)
    return made


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
