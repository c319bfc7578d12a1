"""The ways to multiply with a packed matrix, and which of them this machine has."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mgpp.compiler import NoKernel
from mgpp.runtime.build import kernel
from mgpp.runtime.layout import Packed, pack, to_csr

Product = Callable[[Tensor, Tensor | None], Tensor]  # contiguous (… × columns) and the bias → (… × rows)
PATHS = ("auto", "compiled", "csr")


@dataclass(frozen=True, kw_only=True)
class Path:
    """`name` is compiled (the blocked kernel), csr (torch's own sparse product) or dense (neither is there)."""

    name: str
    detail: str
    bind: Callable[[Packed], Product] | None

    def __str__(self) -> str:
        return f"{self.name} ({self.detail})"

    def __repr__(self) -> str:
        return f"<{self}>"


def active(wanted: str = "auto") -> Path:
    """The path that `accelerate` takes on this machine, and why. The first call may compile for a few seconds."""
    if wanted not in PATHS:
        raise ValueError(f"path={wanted!r} is not one of {', '.join(PATHS)}")
    return _found(wanted)


@functools.cache
def _found(wanted: str) -> Path:
    reasons = []
    if wanted != "csr":
        try:
            return Path(name="compiled", detail=str(kernel()), bind=lambda packed: kernel().bind(packed))
        except NoKernel as reason:
            if wanted == "compiled":
                raise
            reasons.append(str(reason))
    try:
        _try_csr()
    except RuntimeError as reason:
        reasons.append(f"torch has no CSR product here: {reason}")
        return Path(name="dense", detail="; ".join(reasons), bind=None)
    return Path(name="csr", detail="; ".join(["torch.addmm", *reasons]), bind=csr_product)


def csr_product(packed: Packed) -> Product:
    """torch's sparse product in its one fast form: CSR with 32-bit indices on the left, activations transposed.

    `F.linear` with a CSR weight is slower than the dense layer.
    """
    weight = to_csr(packed)

    def product(x: Tensor, bias: Tensor | None) -> Tensor:
        tokens = x.view(-1, x.shape[-1]).T
        y = weight @ tokens if bias is None else torch.addmm(bias.unsqueeze(1), weight, tokens)
        return y.T.contiguous().view(*x.shape[:-1], len(y))

    return product


def _try_csr() -> None:
    weight, x = torch.eye(3), torch.ones(2, 3)
    if not torch.equal(csr_product(pack(weight))(x, torch.ones(3)), x + 1):
        raise RuntimeError("its numbers are wrong")
