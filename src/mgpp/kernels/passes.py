"""A pruned step's work on a CPU by compiled C++ (passes.cpp), where there is a compiler: one pass over all tensors.

Tensors are float32, contiguous, and of one shape with what stands beside them.
"""

import ctypes
import functools
import math
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from mgpp import compiler
from mgpp.functional.prior import add_prior_gradient_, log_odds, shrink_by_prior_
from mgpp.functional.score import curvature
from mgpp.functional.select import Cut, zero_smallest_

SOURCE = Path(__file__).with_name("passes.cpp")
# No contraction: a product and a sum must round as the twin's do. No errno: a root that may set it is not a vector's.
FLAGS: tuple[str, ...] = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
if platform.machine() in ("x86_64", "AMD64"):
    FLAGS += ("-mprefer-vector-width=512",)  # where there are such; compilers choose 256
CHUNK = 1 << 12  # as in passes.cpp
ROOM = 1 << 16  # for the scores in a window, 256 KiB: all that an event takes beside the stacks of its threads

Band = tuple[float, float]  # of scores, from the one up to the other; it may be empty
# Of each weight: nothing, or its second moment and that one's correction. A moment that is one number for all of a
# weight's is a chunk of it.
Inputs = Sequence[Sequence[Tensor]]


class Odds(NamedTuple):
    """Of the slab against the spike: log-odds c1 + c2·w² as in mgpp.functional.prior, held at `most`."""

    c1: float
    c2: float
    most: float

    @classmethod
    def of(cls, *, slab_prob: float, spike_var: float, slab_var: float) -> "Odds":
        # At most so far out, the spike's part is e⁻¹⁸ of the slab's and lost in rounding that. Without a bound it would
        # come to be subnormal, and e to the odds more than a float32 holds.
        most = min(math.log(slab_var) - math.log(spike_var) + 18, 87)
        return cls(*log_odds(slab_prob=slab_prob, spike_var=spike_var, slab_var=slab_var), most)


class Strength(NamedTuple):
    """Of the prior on one tensor: scale · (1/σ0² - 1/σ1²), scale / σ1², ε, and the most that it may be."""

    spike: float
    slab: float
    limit: float
    floor: float = 0.0


class _Row(ctypes.Structure):
    """`Row` in passes.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("weight", "beside")),
        *((name, ctypes.c_int64) for name in ("size", "step")),
        *((name, ctypes.c_float) for name in ("spike", "slab", "floor", "limit", "correction")),
        *((name, ctypes.c_int64) for name in ("zeros", "equal", "infinite", "nan")),
    )


class _Found(ctypes.Structure):
    """`Found` in passes.cpp."""

    _fields_ = (("value", ctypes.c_float), ("below", ctypes.c_int64), ("looks", ctypes.c_int64))


class Passes:
    """The loaded library."""

    def __init__(self, library: ctypes.CDLL, built_by: str) -> None:
        self.threaded, self.built_by = bool(library.mgpp_threaded()), built_by
        self.looks = 0  # passes that the last cut was found in
        table, number = (ctypes.POINTER(_Row), ctypes.c_int64, ctypes.c_int), ctypes.c_float
        self._add_prior_gradient, self._shrink = library.mgpp_add_prior_gradient, library.mgpp_shrink_by_prior
        self._add_prior_gradient.argtypes = self._shrink.argtypes = (*table, number, number, number)
        self._find_cut, self._zero_below = library.mgpp_find_cut, library.mgpp_zero_below
        room, found = (ctypes.c_void_p, ctypes.c_int64), ctypes.POINTER(_Found)
        self._find_cut.argtypes = (*table, ctypes.c_int, ctypes.c_int64, number, number, *room, found)
        self._zero_below.argtypes = (*table, ctypes.c_int, number, ctypes.c_int64)
        self._count_broken = library.mgpp_count_broken
        self._count_broken.argtypes = table

    def add_prior_gradient_(
        self, weights: Sequence[Tensor], grads: Sequence[Tensor], strength: Strength, odds: Odds
    ) -> None:
        """grad += w · (spike · g(w) + slab), by `limit` at most."""
        rows = [_row(weight, grad, **strength._asdict()) for weight, grad in zip(weights, grads, strict=True)]
        self._add_prior_gradient(*_table(rows), *odds)
        increment_version(grads)  # so that autograd knows what it kept of them to be out of date

    def shrink_(
        self, weights: Sequence[Tensor], moments: Sequence[Tensor], strengths: Iterable[Strength], odds: Odds
    ) -> None:
        """|w| -= |w| · (spike · g(w) + slab) / (√v + floor), by `limit` at most and never to zero."""
        each = zip(weights, moments, strengths, strict=True)
        self._shrink(*_table([_row(weight, moment, **strength._asdict()) for weight, moment, strength in each]), *odds)
        increment_version(weights)

    def find_cut(
        self, weights: Sequence[Tensor], inputs: Inputs, k: int, band: Band = (0.0, 0.0), *, room: int = ROOM
    ) -> Cut:
        """The cut under which exactly k scores lie, fewer than all. One pass finds it inside the band, if that holds no
        more than there is room for."""
        rows, by_curvature = _scored(weights, inputs)
        inside, found = torch.empty(room, dtype=torch.int32, device="cpu"), _Found()
        self._find_cut(*_table(rows), by_curvature, k, *band, inside.data_ptr(), room, found)
        self.looks = found.looks
        return Cut(value=found.value, below=found.below, ties=k - found.below)

    def zero_below_(self, weights: Sequence[Tensor], inputs: Inputs, cut: Cut) -> list[int]:
        """Zero the weights that the cut takes. How many of each tensor are zero then."""
        rows, by_curvature = _scored(weights, inputs)
        table = _table(rows)
        self._zero_below(*table, by_curvature, cut.value, cut.ties)
        increment_version(weights)
        return [row.zeros for row in table[0]]

    def worst(self, tensors: Sequence[Tensor]) -> float:
        """NaN where there is one among the numbers, else inf where there is one, else 0."""
        table = _table([_row(tensor, tensor) for tensor in tensors])
        self._count_broken(*table)
        if any(row.nan for row in table[0]):
            return math.nan
        return math.inf if any(row.infinite for row in table[0]) else 0.0


def _row(weight: Tensor, beside: Tensor, *, step: int = 1, **numbers: float) -> _Row:
    assert beside.numel() == (weight.numel() if step else CHUNK)
    return _Row(weight=weight.data_ptr(), beside=beside.data_ptr(), size=weight.numel(), step=step, **numbers)


def _table(rows: Sequence[_Row]) -> tuple["ctypes.Array[_Row]", int, int]:
    return (_Row * len(rows))(*rows), len(rows), torch.get_num_threads()


def _scored(weights: Sequence[Tensor], inputs: Inputs) -> tuple[list[_Row], bool]:
    """Rows, and whether their score is the curvature's; else it is the size."""
    if not any(inputs):
        return [_row(weight, weight) for weight in weights], False
    each = zip(weights, inputs, strict=True)
    return [
        _row(weight, moment, step=int(moment.numel() == weight.numel()), correction=float(correction))
        for weight, (moment, correction) in each
    ], True


@functools.cache
def compiled() -> Passes | None:
    """For this machine; None where there is no compiler, or what it builds is not to be trusted."""
    try:
        return build("native")
    except compiler.NoKernel:
        return None


def build(march: str) -> Passes:
    passes = compiler.load([SOURCE], Passes, flags=FLAGS, march=march)
    if not passes.threaded:
        raise compiler.NoKernel(f"{passes.built_by} has no OpenMP: on one thread torch's operations may be faster")
    if not _is_right(passes):
        raise compiler.NoKernel(f"what {passes.built_by} built computes wrong numbers on this machine")
    return passes


def _is_right(passes: Passes) -> bool:
    """Does it do as the twins do, on some numbers?"""
    steps = torch.linspace(-1, 1, 1001, dtype=torch.float32, device="cpu")
    weight, moment, correction = 0.1 * steps, 1e-6 * (1 + steps), torch.tensor(0.5, device="cpu")
    shape = {"slab_prob": 1e-3, "spike_var": 1e-4, "slab_var": 1.0}
    strength, odds = Strength(spike=1 / shape["spike_var"] - 1, slab=1.0, limit=1e9), Odds.of(**shape)
    pulled, pulled_by_twin, shrunk, shrunk_by_twin = steps * 0, steps * 0, weight.clone(), weight.clone()
    passes.add_prior_gradient_([weight], [pulled], strength, odds)
    add_prior_gradient_([weight], [pulled_by_twin], scale=1.0, **shape)
    passes.shrink_([shrunk], [moment * 1e12], [strength], odds)
    shrink_by_prior_([shrunk_by_twin], [moment * 1e12], scales=[1.0], corrections=[1.0], eps=[0.0], **shape)
    weight = weight.round(decimals=2)  # many score alike
    rest, rest_by_twin, inputs = weight.clone(), weight.clone(), [(moment.round(decimals=7), correction)]
    cut = zero_smallest_([rest_by_twin], 777, score=curvature, inputs=inputs)
    near = 0.9 * cut.value, 1.1 * cut.value
    found = [passes.find_cut([weight], inputs, 777, band, room=room) for band, room in ((near, ROOM), ((0.0, 0.0), 1))]
    zeros = passes.zero_below_([rest], inputs, cut)
    return (
        torch.allclose(pulled, pulled_by_twin, rtol=1e-5)
        and torch.allclose(shrunk, shrunk_by_twin, rtol=1e-5)
        and found == [cut, cut]
        and torch.equal(rest, rest_by_twin)
        and zeros == [int((rest_by_twin == 0).sum())]
        and [passes.worst([steps / each]) for each in (1.0, 1e-45)] == [0.0, math.inf]
    )
