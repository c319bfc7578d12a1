"""What a method keeps from step to step, and what a checkpoint of it holds."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor


class Memory:
    """Tensors that pieces keep from step to step: of each kind one for every pruned weight, of its shape and place.

    Where a weight is sharded, of the part that this process holds; `parts` gives those.
    """

    def __init__(self, names: Sequence[str], parts: Callable[[], Sequence[Tensor]]) -> None:
        self._names = list(names)
        self._parts = parts
        self._kinds: dict[str, list[Tensor]] = {}

    def get(self, kind: str) -> list[Tensor] | None:
        return self._kinds.get(kind)

    def set(self, kind: str, tensors: Sequence[Tensor]) -> None:
        self._kinds[kind] = list(tensors)

    def zeros(self, kind: str, dtype: torch.dtype | None = None) -> list[Tensor]:
        """Those of this kind; zeros on first use, in float32 for half-precision weights unless told otherwise."""
        if kind not in self._kinds:
            self._kinds[kind] = [
                torch.zeros_like(weight, dtype=dtype or torch.promote_types(weight.dtype, torch.float32))
                for weight in self._parts()
            ]
        return self._kinds[kind]

    def made(self, kind: str, make: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """Those of this kind; on first use what `make` makes of each weight, all of them as they are then."""
        if kind not in self._kinds:
            self._kinds[kind] = [make(weight) for weight in self._parts()]
        return self._kinds[kind]

    def only(self, indices: Sequence[int]) -> "Memory":
        """What is kept for some of the weights: the same tensors, made here where they are not there yet."""
        return _PartOfMemory(self, indices)

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensors in self._kinds.values() for tensor in tensors)

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        return {kind: dict(zip(self._names, tensors, strict=True)) for kind, tensors in self._kinds.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        devices = [weight.device for weight in self._parts()]
        self._kinds = {
            kind: [tensors[name].to(device, copy=True) for name, device in zip(self._names, devices, strict=True)]
            for kind, tensors in state.items()
        }


class _PartOfMemory(Memory):
    def __init__(self, whole: Memory, indices: Sequence[int]) -> None:
        self._whole, self._indices = whole, indices

    def get(self, kind: str) -> list[Tensor] | None:
        tensors = self._whole.get(kind)
        return None if tensors is None else [tensors[i] for i in self._indices]

    def set(self, kind: str, tensors: Sequence[Tensor]) -> None:
        raise RuntimeError(f"{kind} is set for all weights together, after the last of them has made its step")

    def zeros(self, kind: str, dtype: torch.dtype | None = None) -> list[Tensor]:
        tensors = self._whole.zeros(kind, dtype)
        return [tensors[i] for i in self._indices]

    def made(self, kind: str, make: Callable[[Tensor], Tensor]) -> list[Tensor]:
        tensors = self._whole.made(kind, make)
        return [tensors[i] for i in self._indices]
