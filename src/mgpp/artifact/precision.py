"""How exactly numbers are stored."""

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from mgpp.artifact.container import itemsize
from mgpp.artifact.layout import FLOATS, code_of

Values = Literal["fp32", "bf16", "fp16", "int8"]
_NARROW = {"bf16": "BF16", "fp16": "F16"}


@dataclass(frozen=True, kw_only=True)
class Precision:
    """fp32 stores every number as it is; bf16, fp16 and int8 (a scale a row) round matrices that are wider.

    Vectors, biases and norms, stay as they are: they weigh nothing. `embeddings` is for embeddings; by default they are
    stored like the other matrices, except beside int8, where they stay as they are until int8 is asked for here too.
    """

    values: Values = "fp32"
    embeddings: Values | None = None

    def __post_init__(self) -> None:
        for name, value in (("values", self.values), ("embeddings", self.embeddings or self.values)):
            if value not in get_args(Values):
                raise ValueError(f"{name}={value!r} is not one of {', '.join(get_args(Values))}")

    @property
    def of_embeddings(self) -> Values:
        return self.embeddings or ("fp32" if self.values == "int8" else self.values)

    def stored(self, tensor: Tensor, *, name: str, embedding: bool) -> str:
        """The type that a tensor is stored as."""
        own = code_of(tensor.dtype, name)
        wanted = self.of_embeddings if embedding else self.values
        if tensor.ndim < 2 or own not in FLOATS or not tensor.numel():
            return own
        if wanted == "int8":
            rows = tensor.numel() // tensor.shape[-1]
            return "I8" if tensor.numel() + 4 * rows < tensor.numel() * itemsize(own) else own
        return _NARROW[wanted] if wanted in _NARROW and itemsize(own) > 2 else own
