"""The compiled kernel: built by mgpp.compiler at first use, and tried out."""

import ctypes
import functools
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mgpp import compiler
from mgpp.compiler import NoKernel
from mgpp.runtime.layout import Packed, pack, unpack

SOURCES = [Path(__file__).with_name(name) for name in ("spmm.cpp", "attention.cpp", "vectors.h")]


class _Matrix(ctypes.Structure):
    """`Matrix` in spmm.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "columns", "tied")),
        *((name, ctypes.c_void_p) for name in ("values", "places", "lines", "starts")),
    )


class _Side(ctypes.Structure):
    """`Side` in attention.cpp."""

    _fields_ = (("at", ctypes.c_void_p), *((name, ctypes.c_int64) for name in ("batch", "head", "token")))

    @classmethod
    def of(cls, tensor: Tensor) -> "_Side":
        return cls(tensor.data_ptr(), *tensor.stride()[:3])


class _Mask(ctypes.Structure):
    """`Mask` in attention.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("seen", "added")),
        *((name, ctypes.c_int64) for name in ("batch", "key")),
    )

    @classmethod
    def of(cls, mask: Tensor | None) -> "_Mask":
        if mask is None:
            return cls()
        at = (mask.data_ptr(), None) if mask.dtype == torch.bool else (None, mask.data_ptr())
        return cls(*at, mask.stride(0) if len(mask) > 1 else 0, mask.stride(3))


class _Sizes(ctypes.Structure):
    """`Sizes` in attention.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("batch", "heads", "groups", "queries", "keys", "dim")),
        ("scale", ctypes.c_float),
    )


class Kernel:
    """The loaded library."""

    def __init__(self, library: ctypes.CDLL, built_by: str) -> None:
        self._multiply = library.mgpp_multiply
        self._multiply.argtypes = (*(ctypes.c_void_p,) * 4, *(ctypes.c_int64,) * 2)
        self._attend = library.mgpp_attend
        self._attend.argtypes = (*(ctypes.c_void_p,) * 6, ctypes.c_int64)
        library.mgpp_vectors.restype = ctypes.c_char_p
        self.vectors: str = library.mgpp_vectors().decode()
        self.threaded = bool(library.mgpp_threaded())
        self.built_by = built_by

    def bind(self, packed: Packed) -> "Bound":
        return Bound(self, packed)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
        """softmax(q·kᵀ · scale + mask) · v of (batch × heads × tokens × dim), as (batch × tokens × heads × dim).

        The mask is the same for all heads and queries: True where a key counts, or what is added to its scores.
        """
        (batch, heads, queries, dim), (_, groups, keys, _) = query.shape, key.shape
        out = query.new_empty(batch, queries, heads, dim)
        sides = _Side.of(query), _Side.of(key), _Side.of(value)
        beside = _Mask.of(mask), _Sizes(batch, heads, groups, queries, keys, dim, scale)
        addresses = map(ctypes.addressof, (*sides, *beside))
        if self._attend(*addresses, out.data_ptr(), torch.get_num_threads()):
            raise MemoryError(f"no memory for the attention of {queries} tokens to {keys}")
        return out

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
    """The kernel for a -march, tried on two small products and an attention."""
    made = compiler.load(SOURCES, Kernel, march=march)
    _try_out(made)
    return made


def _try_out(made: Kernel) -> None:
    for packed in (pack(weight) for weight in _small_matrices()):
        x = torch.linspace(-1, 1, 70 * packed.columns).view(70, packed.columns)
        actual, expected = made.bind(packed)(x, None), x @ unpack(packed).T
        _require_alike(made, actual, expected)
    q, k, v = torch.linspace(-1, 1, 3 * 2 * 70 * 12).view(3, 1, 2, 70, 12)
    _require_alike(
        made, made.attend(q, k, v, None, 2.0), scaled_dot_product_attention(q, k, v, scale=2.0).transpose(1, 2)
    )


def _require_alike(made: Kernel, actual: Tensor, expected: Tensor) -> None:
    if not torch.allclose(actual, expected, rtol=1e-4, atol=1e-4):
        raise NoKernel(f"the kernel built by {made.built_by} computes wrong numbers on this machine")


def _small_matrices() -> Iterator[Tensor]:
    weight = torch.linspace(-1, 1, 67 * 131).view(67, 131)
    yield weight * (torch.arange(67 * 131).view(67, 131) % 7 == 0)
    yield weight * (torch.arange(131) % 7 == 0)  # whole columns: in pairs
