"""Where a pruned step's extra time goes on a CPU: its parts one by one, compiled, by torch's operations, and readable;
and single operations, of which torch's parts are made.

The weights are MiniLM-L6's in number, and random: 90% just pruned and grown by one step, or not yet where it says so.
Moments are as late in a run.

python benchmarks/cpu_parts.py --output benchmarks/results/NAME.json
"""

import argparse
import functools
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mgpp import kernels
from mgpp.bench.overhead import SHAPES
from mgpp.bench.results import append
from mgpp.bench.timing import take_turns
from mgpp.functional import adamw as plain_adamw
from mgpp.functional import prior as plain_prior
from mgpp.functional import select as plain_select
from mgpp.functional.adamw import Adam
from mgpp.functional.score import curvature
from mgpp.kernels import passes
from mgpp.kernels.pieces import buffers, pieces
from mgpp.run.result import provenance
from mgpp.targets import find_targets

ADAM = Adam(lr=1e-5, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, step=10_000)
PRIOR = {"slab_prob": 1e-7, "spike_var": 1e-9, "slab_var": 0.1}
SPARSITY = 0.9

# What the parts by torch's operations are made of: a piece of the weights, of the moments, and two buffers.
ONE: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], object]] = {
    "size": lambda w, v, one, other: torch.abs(w, out=one),
    "product": lambda w, v, one, other: torch.mul(w, v, out=one),
    "square root": lambda w, v, one, other: torch.sqrt(v, out=one),
    "one over the root, and that inverted": lambda w, v, one, other: torch.rsqrt(v, out=one).reciprocal_(),
    "sigmoid, in the cache": lambda w, v, one, other: one.sigmoid_(),
    "bound, in the cache": lambda w, v, one, other: one.clamp_(max=1),
    "comparison, in the cache": lambda w, v, one, other: torch.le(one, 0.5, out=other),
    "sum, in the cache": lambda w, v, one, other: float(one.sum()),
    "zeroing": lambda w, v, one, other: torch.hardshrink(w, 0.0, out=w),
}


class Step:
    """One step's tensors: all parameters, and those that are pruned."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        model = SHAPES["minilm"].model()
        with torch.no_grad():
            self.all = [param.detach() for param in model.parameters()]
            self.weights = [param.detach() for param in find_targets(model).values()]
        self.k = int(SPARSITY * sum(weight.numel() for weight in self.weights))
        self.grads, self.means = ([1e-4 * torch.randn_like(param) for param in self.all] for _ in range(2))
        self.squares = [1e-8 * torch.rand_like(param) for param in self.all]
        self.own_grads = [1e-4 * torch.randn_like(weight) for weight in self.weights]
        self.moments = [1e-8 * torch.rand_like(weight) for weight in self.weights]
        self.correction = torch.tensor(ADAM.correction2)
        self.scratch: dict[str, dict] = {"magnitude": {}, "curvature": {}}
        self.pruned = {by: [weight.clone() for weight in self.weights] for by in self.scratch}
        for by, weights in self.pruned.items():
            plain_select.zero_smallest_(weights, self.k, **self._scored(by))
        self.settled = {by: [weight.clone() for weight in weights] for by, weights in self.pruned.items()}

    def grow(self) -> None:
        """What the optimizer does after an event."""
        for by, weights in self.pruned.items():
            for weight, settled in zip(weights, self.settled[by], strict=True):
                torch.add(settled, torch.randn_like(weight), alpha=ADAM.lr, out=weight)
        for weight, grown in zip(self.weights, self.pruned["magnitude"], strict=True):
            weight.copy_(grown)

    def event(self, by: str) -> Callable[[], object]:
        how: dict[str, Any] = {"kernel": by, "scratch": self.scratch[by]}
        return lambda: kernels.zero_smallest_(self.pruned[by], self.k, **how, **self._scored(by))

    def plain_event(self, by: str) -> Callable[[], object]:
        return lambda: plain_select.zero_smallest_(self.pruned[by], self.k, **self._scored(by))

    def _scored(self, by: str) -> dict[str, Any]:
        if by == "magnitude":
            return {}
        return {"score": curvature, "inputs": [(moment, self.correction) for moment in self.moments]}

    def parts(self) -> dict[str, Callable[[], object]]:
        everything = (self.all, self.grads, self.means, self.squares, [False] * len(self.all), ADAM)
        pulled, just_pruned = (self.weights, self.own_grads), (self.settled["magnitude"], self.own_grads)
        moved = (self.weights, self.moments)
        shrunk: dict[str, Any] = {
            name: [value] * len(self.weights)
            for name, value in {"scales": 1e-12, "corrections": self.correction, "eps": ADAM.eps}.items()
        }
        fast: dict[str, Callable[[], object]] = {
            "prior in the gradient": lambda: kernels.add_prior_gradient_(*pulled, scale=1e-6, scratch={}, **PRIOR),
            "prior in the gradient of just pruned weights": lambda: kernels.add_prior_gradient_(
                *just_pruned, scale=1e-6, scratch={}, **PRIOR
            ),
            "prior decoupled": lambda: kernels.shrink_by_prior_(*moved, scratch={}, **shrunk, **PRIOR),
            "prior decoupled, within a reach": lambda: kernels.shrink_by_prior_(
                *moved, most=1e5, scratch={}, **shrunk, **PRIOR
            ),
            "event by magnitude": self.event("magnitude"),
            "event by curvature": self.event("curvature"),
        }
        readable: dict[str, Callable[[], object]] = {
            "prior in the gradient": lambda: plain_prior.add_prior_gradient_(*pulled, scale=1e-6, **PRIOR),
            "prior in the gradient of just pruned weights": lambda: plain_prior.add_prior_gradient_(
                *just_pruned, scale=1e-6, **PRIOR
            ),
            "prior decoupled": lambda: plain_prior.shrink_by_prior_(*moved, **shrunk, **PRIOR),
            "prior decoupled, within a reach": lambda: plain_prior.shrink_by_prior_(
                *moved, most=1e5, **shrunk, **PRIOR
            ),
            "event by magnitude": self.plain_event("magnitude"),
            "event by curvature": self.plain_event("curvature"),
        }
        sides: dict[str, Callable[[], object]] = {
            "AdamW, torch's fused": lambda: kernels.adamw_(*everything, scratch={}),
            "AdamW, readable": lambda: plain_adamw.adamw_(*everything),
        }
        for name, part in fast.items():
            sides[f"{name}, compiled"] = part
            sides[f"{name}, torch operations"] = functools.partial(uncompiled, part)
            sides[f"{name}, readable"] = readable[name]
        return sides | {f"one operation: {name}": functools.partial(self.each, work) for name, work in ONE.items()}

    def each(self, work: Callable[[Tensor, Tensor, Tensor, Tensor], object]) -> None:
        """One operation over all weights, in the pieces in which the parts take them."""
        room = buffers(2, self.weights)
        for weight, moment in zip(self.weights, self.moments, strict=True):
            for piece in pieces(room, weight, moment):
                work(*piece)


def uncompiled(part: Callable[[], object]) -> None:
    """As where there is no compiler."""
    before, passes.compiled = passes.compiled, lambda: None
    try:
        part()
    finally:
        passes.compiled = before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    if passes.compiled() is None:
        sys.exit("no compiler here, and so no compiled side: install g++")
    step = Step()
    times = take_turns(step.parts(), rounds=args.rounds, warm_up=3, device=torch.device("cpu"), before=step.grow)
    rows = [{"name": name, **numbers} for name, numbers in times.items()]
    for row in rows:
        print(f"{row['name']}: {row['median_ms']:.1f} ms ({row['low_ms']:.1f} to {row['high_ms']:.1f})")
    if args.output is not None:
        command = f"python benchmarks/cpu_parts.py {shlex.join(sys.argv[1:])}"
        at = datetime.now(UTC).isoformat(timespec="seconds")
        append(args.output, {"what": "cpu parts", "command": command, "at": at, **provenance(), "rows": rows})


if __name__ == "__main__":
    main()
