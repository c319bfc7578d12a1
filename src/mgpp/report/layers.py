"""Which matrices there are, by kind and by block, and how much each of them has lost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mgpp.report.run import Record, Run


@dataclass(frozen=True, kw_only=True)
class Layer:
    """encoder.layer.3.output.dense.weight: block 3, kind "output.dense"."""

    name: str
    kind: str
    block: int
    size: int

    @property
    def label(self) -> str:
        return f"{self.block} {self.kind}"


def layers_of(weights: Mapping[str, int]) -> list[Layer]:
    """In the model's order. Where a model has several stacks (encoder, decoder), a kind is named with its stack."""
    split = {name: _split(name) for name in weights}
    stacks = list(dict.fromkeys(stack for stack, _, _ in split.values()))
    shared = _common(stacks)
    found = []
    for name, (stack, block, matrix) in split.items():
        own = ".".join(stack[len(shared) :])
        own = own.removesuffix(".layers").removesuffix(".layer").removesuffix(".block").removesuffix(".h")
        kind = f"{own} {matrix}" if len(stacks) > 1 and own else matrix
        found.append(Layer(name=name, kind=kind, block=block, size=weights[name]))
    return found


def _split(name: str) -> tuple[tuple[str, ...], int, str]:
    """bert.encoder.layer.3.output.dense.weight → (bert, encoder, layer), 3, output.dense"""
    parts = name.removesuffix(".weight").split(".")
    for position, part in enumerate(parts):
        if position and part.isdigit():
            return tuple(parts[:position]), int(part), ".".join(parts[position + 1 :]) or parts[position - 1]
    return (), 0, ".".join(parts)


def _common(stacks: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    shared: tuple[str, ...] = ()
    for parts in zip(*stacks, strict=False):
        if len(set(parts)) > 1:
            break
        shared = (*shared, parts[0])
    return shared


@dataclass(frozen=True, kw_only=True)
class Lost:
    """How much of a part is gone; `share` of its own weights."""

    what: str
    zeros: int
    size: int

    @property
    def share(self) -> float:
        return self.zeros / self.size if self.size else 0.0


def lost_by_layer(run: Run) -> list[Lost]:
    """Most first."""
    return _ranked(run, [(layer, f"{layer.kind} of block {layer.block}") for layer in layers_of(run.weights)])


def lost_by_kind(run: Run) -> list[Lost]:
    return _ranked(run, [(layer, layer.kind) for layer in layers_of(run.weights)])


def lost_by_block(run: Run) -> list[Lost]:
    return _ranked(run, [(layer, f"block {layer.block}") for layer in layers_of(run.weights)])


def _ranked(run: Run, parts: Sequence[tuple[Layer, str]]) -> list[Lost]:
    if not run.events:
        return []
    zeros = run.events[-1]["zeros"]
    sums: dict[str, tuple[int, int]] = {}
    for layer, what in parts:
        gone, size = sums.get(what, (0, 0))
        sums[what] = (gone + zeros[layer.name], size + layer.size)
    found = [Lost(what=what, zeros=gone, size=size) for what, (gone, size) in sums.items()]
    return sorted(found, key=lambda lost: -lost.share)


def thin(found: Sequence[Record], most: int) -> list[Record]:
    """At most so many records, evenly spread over the steps, the first and the last among them."""
    if len(found) <= most:
        return list(found)
    first, last = found[0]["step"], found[-1]["step"]
    kept: dict[int, Record] = {}
    for record in found:
        kept.setdefault((record["step"] - first) * (most - 1) // max(1, last - first), record)
    return list(kept.values())
