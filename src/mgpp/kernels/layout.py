"""Lists of tensors laid out for kernels that walk over all of them; kept while the tensors stay what they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mgpp.kernels.table import MOST_CHUNKS, READABLE, Table

Lists = Sequence[Sequence[Tensor]]  # "roles" (weights, gradients, ...): the n-th tensors of all have one shape


@dataclass(frozen=True)
class Group:
    """The tensors that have the same dtypes in every role: one launch serves them."""

    indices: list[int]
    dtypes: tuple[torch.dtype, ...]
    table: Table
    addresses: list[Tensor]  # a tensor of addresses for each role, always in the same place
    number: Tensor  # each one's place among all tensors
    base: Tensor  # each one's first chunk among all chunks


class Layout:
    def __init__(self, lists: Lists) -> None:
        device = lists[0][0].device
        self.device = device
        self.sizes = [tensor.numel() for tensor in lists[0]]
        whole = Table(self.sizes, device)
        self.chunk, self.chunks = whole.chunk, whole.chunks
        self.groups = []
        for dtypes, indices in _by_dtype(lists).items():
            table = Table([self.sizes[i] for i in indices], device, chunk=whole.chunk)
            number = torch.tensor(indices, dtype=torch.int32, device=device)
            places = [torch.empty(len(indices), dtype=torch.int64, device=device) for _ in lists]
            self.groups.append(Group(indices, dtypes, table, places, number, whole.first_chunk[number.long()]))
        self._sent: dict[int, list[Tensor]] = {}

    def put(self, role: int, addresses: Sequence[int]) -> None:
        """Send a role's addresses to the device, which nobody waits for."""
        sent = [torch.tensor([addresses[i] for i in group.indices], dtype=torch.int64) for group in self.groups]
        if self.device.type == "cuda":
            sent = [tensor.pin_memory() for tensor in sent]
        for group, mine in zip(self.groups, sent, strict=True):
            group.addresses[role].copy_(mine, non_blocking=True)
        self._sent[role] = sent  # kept: a graph that is being recorded copies it at every replay


def _by_dtype(lists: Lists) -> dict[tuple[torch.dtype, ...], list[int]]:
    groups: dict[tuple[torch.dtype, ...], list[int]] = {}
    for index, tensors in enumerate(zip(*lists, strict=True)):
        groups.setdefault(tuple(tensor.dtype for tensor in tensors), []).append(index)
    return groups


@dataclass
class _Known:
    layout: Layout | None
    traits: list[Any]
    addresses: list[list[int]]


def lay_out(key: str, lists: Lists, scratch: dict[str, Any], *, fresh: Sequence[int] = ()) -> Layout | None:
    """The layout of these lists, None if the kernels cannot take them. It is the same object from call to call, kept in
    `scratch` under `key`, while sizes and dtypes stay; tensors that have moved cost only a copy of their addresses.

    This is called at every step and over hundreds of tensors, so it asks little of each. A tensor that lies where the
    last one did is the last one, except in the roles that are `fresh` at every step: gradients.
    """
    unique = {id(tensors): tensors for tensors in lists}
    addresses_of = {name: [*map(Tensor.data_ptr, tensors)] for name, tensors in unique.items()}
    addresses = [addresses_of[id(tensors)] for tensors in lists]
    known: _Known | None = scratch.get(key)
    if known is not None and _same(known, lists, addresses, fresh):
        return known.layout
    traits = [_traits(tensors) for tensors in lists]
    if known is None or known.traits != traits or not (known.layout and _aligned(addresses)):
        layout = Layout(lists) if _aligned(addresses) and _supports(unique.values()) else None
        if layout is not None and layout.chunks > MOST_CHUNKS:
            layout = None
        known = scratch[key] = _Known(layout, traits, [[] for _ in lists])
    for role, (now, then) in enumerate(zip(addresses, known.addresses, strict=True)):
        if known.layout is not None and now != then:
            known.layout.put(role, now)
    known.addresses = addresses
    return known.layout


def _same(known: _Known, lists: Lists, addresses: list[list[int]], fresh: Sequence[int]) -> bool:
    return known.addresses == addresses and all(_traits(lists[role]) == known.traits[role] for role in fresh)


def _traits(tensors: Sequence[Tensor]) -> tuple:
    return (
        [tensor.dtype for tensor in tensors],
        [*map(Tensor.numel, tensors)],
        all(map(Tensor.is_contiguous, tensors)),
    )


def _aligned(addresses: list[list[int]]) -> bool:
    """To 16 bytes, which the kernels read at once."""
    return not any(address & 15 for role in addresses for address in role)


def _supports(lists: Any) -> bool:
    """Contiguous tensors of at most 32 bits, or masks, all on one device."""
    tensors = [tensor for tensors in lists for tensor in tensors]
    return (
        bool(tensors)
        and len({tensor.device for tensor in tensors}) == 1
        and all(tensor.dtype in READABLE and tensor.is_contiguous() for tensor in tensors)
    )
