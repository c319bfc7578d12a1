"""The ways to run one model on a CPU: each takes a model and a batch, and gives a call without arguments."""

import contextlib
import copy
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mgpp.artifact.engines import require
from mgpp.runtime import accelerate, attention, summary

Run = Callable[[], Tensor]
Batch = dict[str, Tensor]


def torch_fp32(model: nn.Module, batch: Batch) -> tuple[Run, str]:
    return _called(model, batch), f"torch {torch.__version__}"


def torch_bf16(model: nn.Module, batch: Batch) -> tuple[Run, str]:
    return _called(copy.deepcopy(model).to(torch.bfloat16), batch), f"torch {torch.__version__}"


def torch_compiled(model: nn.Module, batch: Batch) -> tuple[Run, str]:
    return _called(torch.compile(model), batch), f"torch {torch.__version__}"


def sparse(model: nn.Module, batch: Batch) -> tuple[Run, str]:
    """The one that does not multiply by zeros."""
    made = accelerate(copy.deepcopy(model), tokens=batch["input_ids"].numel())
    return _called(made, batch), str(summary(made))


def sparse_with_torchs_attention(model: nn.Module, batch: Batch) -> tuple[Run, str]:
    made = accelerate(copy.deepcopy(model), tokens=batch["input_ids"].numel())
    attention.remove(made)
    return _called(made, batch), str(summary(made))


def onnx_runtime(model: nn.Module, batch: Batch) -> tuple[Run, str]:
    onnxruntime, _ = require("onnxruntime", "onnxscript", extra="openvino")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder, _silence():
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            _Hidden(model).eval(), tuple(batch.values()), path, input_names=list(batch), dynamo=True, verbose=False
        )
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    inputs = {name: values.numpy() for name, values in batch.items()}
    return lambda: torch.from_numpy(session.run(None, inputs)[0]), f"onnxruntime {version('onnxruntime')}"


def openvino_fp32(model: nn.Module, batch: Batch) -> tuple[Run, str]:
    return _openvino(model, batch, "f32")


def openvino_bf16(model: nn.Module, batch: Batch) -> tuple[Run, str]:
    return _openvino(model, batch, "bf16")


def _openvino(model: nn.Module, batch: Batch, precision: str) -> tuple[Run, str]:
    (openvino,) = require("openvino", extra="openvino")
    with _silence():
        converted = openvino.convert_model(_Hidden(model).eval(), example_input=batch)
    converted.reshape({name: list(values.shape) for name, values in batch.items()})  # fixed sizes are its fastest
    settings = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.compile_model(converted, "CPU", settings)
    taken = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    if taken != precision:
        raise ImportError(f"OpenVINO computes in {taken} here, not in {precision}")
    inputs = {name: values.numpy() for name, values in batch.items()}
    return lambda: torch.from_numpy(compiled(inputs)[0]), f"openvino {version('openvino')}"


class _Hidden(nn.Module):
    """The model with its hidden states for the one output."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask)[0]


def _called(model: Any, batch: Batch) -> Run:
    def run() -> Tensor:
        with torch.inference_mode():
            return model(**batch)[0]

    return run


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Exporters tell of every pass they make, and tracers of every branch."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    sink = io.StringIO()
    try:
        with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
