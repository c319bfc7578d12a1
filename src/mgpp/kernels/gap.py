"""Selection where a gap lies under the cut, by torch's operations on a CPU.

Of as many weights as the last time the same go, as a rule: what was zeroed has grown by one step since, and what was
kept lies far above it. So a floor amid the gap is tried first. If just k weights lie under it those are the ones, and
the cut is the smallest score that stays. That takes six operations, where to look around the last cut takes a dozen.
They share one buffer, which so is as long as it can be: how many lie under the floor is read from a sum.

The curvature score |w|·√(v/c) is compared by its square, w²·v with the floor's times c (see curvature.py).
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from mgpp.functional.score import curvature
from mgpp.functional.select import Cut
from mgpp.kernels.curvature import MARGIN, can_bound
from mgpp.kernels.pieces import buffers, pieces

FLOOR = 0.25  # of the last cut. By curvature the cut may move by several percent a step; what was zeroed is far below.
# In the place of what lies under the floor, so that the smallest of all is the smallest above it, and the sum says how
# many there are: exactly, for they are fewer than 2¹⁸, and all others are too small to be seen beside one of them.
FAR = 2.0**100
LARGEST = 2.0**50  # of the others
AGAIN = 16  # events, after one that it did not serve: with a prior in the second moments there is no such gap
MOST = 1000  # scores next to the cut that are looked at one by one

Inputs = Sequence[Sequence[Tensor]]  # nothing where the score is the size, else the second moment and its correction


def take_(weights: Sequence[Tensor], inputs: Inputs, k: int, near: float) -> tuple[Cut, list[int]] | None:
    """Zero the k weights of smallest score, if they are those under the floor. Returns the cut and each one's zeros."""
    floor = near * FLOOR
    if any(beside and not can_bound(floor, floor, beside[1:]) for beside in inputs):
        return None
    room = buffers(1, weights)
    zeros, least = [], []
    for weight, beside in zip(weights, inputs, strict=True):
        below, smallest = 0, math.inf
        for *_, key, largest in _above(room, floor, weight, *beside):
            if not largest < LARGEST:  # nor is it known what the others are: a moment may be infinite
                return None
            below += int(float(key.sum()) / FAR)
            smallest = min(smallest, float(key.amin()))
        zeros.append(below)
        least.append(smallest)
    cut = _smallest(room, weights, inputs, floor, least) if sum(zeros) == k else None
    if cut is None:
        return None
    for weight, beside in zip(weights, inputs, strict=True):
        _zero_under_(room, floor, weight, *beside)
    return Cut(value=cut, below=k, ties=0), zeros


def _above(room: Tensor, floor: float, weight: Tensor, *beside: Tensor) -> Iterator[tuple[Any, ...]]:
    """A piece of the weight and of what is beside it; the keys of what lies above the floor, and FAR for the others;
    the largest key of all."""
    bound = _key_of(floor, *beside)
    for *piece, key in pieces(room, weight, *beside[:1]):
        largest = float(_keys(*piece, out=key).amax())
        yield *piece, torch.threshold_(key, bound, FAR), largest


def _keys(w: Tensor, *moment: Tensor, out: Tensor) -> Tensor:
    return torch.mul(w, moment[0], out=out).mul_(w) if moment else torch.abs(w, out=out)


def _key_of(score: float, *beside: Tensor) -> float:
    return score**2 * float(beside[1]) if beside else score


def _smallest(
    room: Tensor, weights: Sequence[Tensor], inputs: Inputs, floor: float, least: Sequence[float]
) -> float | None:
    """The smallest score above the floor. `least` are each one's smallest keys."""
    if not min(least) < FAR:
        return None
    if not inputs[0]:
        return min(least)
    cut = min(math.sqrt(key / float(beside[1])) for key, beside in zip(least, inputs, strict=True)) * (1 + MARGIN)
    scores = []
    for weight, beside, key in zip(weights, inputs, least, strict=True):
        bound = _key_of(cut, *beside)
        for w, v, keys, _ in _above(room, floor, weight, *beside) if key <= bound else ():
            near = torch.le(keys, bound, out=keys)
            if int(near.sum()) > MOST:
                return None
            at = near.nonzero().squeeze(-1)
            scores += curvature(w[at], v[at], beside[1]).tolist()
    # What lies under the floor by its square may lie a rounding above it by its score.
    return min(scores) if min(scores) > floor * (1 + MARGIN) else None


def _zero_under_(room: Tensor, floor: float, weight: Tensor, *beside: Tensor) -> None:
    if not beside:
        torch.hardshrink(weight, floor, out=weight)
        return
    bound = _key_of(floor, *beside)
    for w, v, key in pieces(room, weight, *beside[:1]):
        # The gradient of a ReLU whose step is at the bound: what to zero, and by which numbers, in one operation.
        torch.ops.aten.threshold_backward.grad_input(w, _keys(w, v, out=key), bound, grad_input=w)
