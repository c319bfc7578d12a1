"""A PyTorch model's weights out of an ONNX file, int8 ones made float again."""

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """{name: tensor} as PyTorch's state_dict has them: a Linear's weight is (out, in).

    The exporter keeps names of embeddings, norms and biases, and renames the matrices it transposed to
    `onnx::MatMul_7`: the node that multiplies by one is still named after its layer.
    """
    graph = onnx.load(path).graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    found = {}
    for name, array in stored.items():
        if name.endswith(("_scale", "_zero_point")) or name.startswith("onnx::"):
            continue
        plain = name.removesuffix("_quantized")
        found[plain] = _floats(plain, stored) if name != plain else array
    for node in graph.node:
        matrix = node.input[1] if node.op_type in ("MatMul", "MatMulInteger") else ""
        if matrix in stored and (matrix.startswith("onnx::") or matrix.endswith("_quantized")):
            plain = matrix.removesuffix("_quantized")
            # Some are there in float beside int8, for a second use of theirs: no need to round those.
            array = stored[plain] if plain in stored else _floats(plain, stored)
            layer = node.name.strip("/").rsplit("/", 1)[0].replace("/", ".")
            found[f"{layer}.weight"] = array.T
    return {name: torch.tensor(np.ascontiguousarray(array)) for name, array in found.items() if array.ndim}


def _floats(name: str, stored: dict[str, np.ndarray]) -> np.ndarray:
    rounded = stored[f"{name}_quantized"].astype(np.float32)
    return (rounded - stored[f"{name}_zero_point"].astype(np.float32)) * stored[f"{name}_scale"]
