"""The layer that takes a pruned Linear's place for inference."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mgpp.runtime.layout import Packed, pack, unpack
from mgpp.runtime.paths import Product, active


class SparseLinear(nn.Module):
    """y = xWᵀ + b on the CPU in float32, without the zeros of W. It computes; it does not learn.

    Its state dict is the plain layer's, with W dense, so a model saves as it did before, and loading such a state packs
    W anew. A copy or a pickle carries the packed form.
    """

    bias: nn.Parameter | None

    def __init__(self, packed: Packed, bias: nn.Parameter | None, *, conv1d: bool = False, path: str = "auto") -> None:
        super().__init__()
        self.packed, self.conv1d, self.path = packed, conv1d, path
        self.out_features, self.in_features = packed.rows, packed.columns
        self.register_parameter("bias", bias)
        self._product: Product | None = None
        self._dense: Tensor | None = None

    @classmethod
    def replacing(cls, layer: nn.Linear | Conv1D, *, path: str = "auto") -> "SparseLinear":
        conv1d = isinstance(layer, Conv1D)
        weight = layer.weight.detach()
        return cls(pack(weight.T if conv1d else weight), layer.bias, conv1d=conv1d, path=path).train(layer.training)

    def plain(self) -> nn.Linear | Conv1D:
        """The layer that this one replaced, weights bit for bit."""
        with torch.device("meta"):  # its parameters are replaced at once
            sizes = self.in_features, self.out_features
            layer = Conv1D(*reversed(sizes)) if self.conv1d else nn.Linear(*sizes)
        layer.weight = nn.Parameter(self._unpacked(), requires_grad=False)
        layer.register_parameter("bias", self.bias)
        return layer.train(self.training)

    @property
    def weight(self) -> Tensor:
        """W, for models that look at it (T5 asks its type at every step): kept dense from the first look on.

        It is a copy: what is written to it changes nothing.
        """
        if self._dense is None:
            self._dense = self._unpacked()
        return self._dense

    # A compiled model breaks its graph here and goes on after it: the product is no operation of torch's.
    @torch.compiler.disable
    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32 or x.device.type != "cpu":
            raise ValueError(
                f"the input is {x.dtype} on {x.device}: an accelerated layer takes torch.float32 on the cpu, "
                "without autocast"
            )
        if x.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                "no gradient goes through an accelerated layer: call the model under torch.inference_mode(), or train "
                "before mgpp.accelerate (mgpp.runtime.densify brings the plain layers back)"
            )
        if torch.jit.is_tracing():
            # A trace sees torch's operations alone: it would take this layer's output for a constant.
            raise RuntimeError(
                "an accelerated layer cannot be traced or exported: call mgpp.runtime.densify(model) first"
            )
        if x.shape[-1:] != (self.in_features,):
            raise ValueError(f"the input's shape is {tuple(x.shape)}: its last size must be {self.in_features}")
        if x.numel() == 0:
            return x.new_empty(*x.shape[:-1], self.out_features)
        if self._product is None:
            self._product = self._bound()
        return self._product(x.contiguous().resolve_neg(), self.bias)

    def _bound(self) -> Product:
        path = active(self.path)
        if path.bind is None:
            raise RuntimeError(f"no sparse product on this machine: {path.detail}")
        return path.bind(self.packed)

    def _unpacked(self) -> Tensor:
        dense = unpack(self.packed)
        return dense.T.contiguous() if self.conv1d else dense

    def extra_repr(self) -> str:
        packed = self.packed
        pattern = ", pairs of rows" if packed.tied == 2 else ""
        path = active(self.path).name
        return f"{self.in_features}, {self.out_features}, density={packed.density:.3f}{pattern}, path={path}"

    def __getstate__(self) -> dict[str, Any]:
        """What is an address in this process, or a copy, is made again where it is needed."""
        return {**self.__dict__, "_product": None, "_dense": None}

    def _apply(self, fn: Any, recurse: bool = True) -> "SparseLinear":
        moved = fn(torch.empty(0))
        if moved.dtype != torch.float32 or moved.device.type != "cpu":
            raise ValueError(
                f"an accelerated layer stays torch.float32 on the cpu, not {moved.dtype} on {moved.device}: call "
                "mgpp.runtime.densify(model) first"
            )
        return super()._apply(fn, recurse)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"] = self._unpacked()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: Any, unexpected: Any, errors: Any
    ) -> None:
        weight = state_dict.pop(prefix + "weight", None)
        if weight is None:
            missing.append(prefix + "weight")
        else:
            self._load(weight, prefix, errors)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)

    def _load(self, weight: Tensor, prefix: str, errors: list[str]) -> None:
        weight = weight.detach().to("cpu", torch.float32)
        weight = weight.T if self.conv1d else weight
        if weight.shape != (self.out_features, self.in_features):
            errors.append(f"{prefix}weight is {tuple(weight.shape)} for ({self.out_features}, {self.in_features})")
            return
        self.packed, self._product, self._dense = pack(weight), None, None
