"""Dense engines: ONNX and OpenVINO. They store the zeros and multiply by them; what they are fast at is dense."""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

# As far as an engine's outputs may lie from PyTorch's, in units of the largest: both add in orders of their own.
TOLERANCE = 1e-4
# Batch × length. One to trace with, and others to compare at: fixed axes would show.
_TRACED, _COMPARED = (2, 12), ((1, 5), (3, 17))
# A protobuf message, which an ONNX file is, ends at 2 GB; weights beyond go to a file beside it.
MAX_ONE_FILE = 1_800_000_000
FOR_ONNX = ("onnx", "onnxscript", "onnxruntime")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "decoder_input_ids")

Run = Callable[[Mapping[str, Tensor]], list[Tensor]]


class _Outputs(nn.Module):
    """The model with its inputs in order, and its tensors alone for output: no caches, no classes."""

    def __init__(self, model: PreTrainedModel, inputs: list[str], outputs: list[str]) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs = model, inputs, outputs

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        found = self.model(**dict(zip(self.inputs, values, strict=True)))
        return tuple(found[name] for name in self.outputs)


def to_onnx(model: PreTrainedModel, path: Path) -> dict[str, Any]:
    """Write `path`, float32 and with a free batch and length, and compare it with PyTorch."""
    require(*FOR_ONNX, extra="onnx")
    model = _as_exported(model)
    inputs = _inputs(model, *_TRACED)
    outputs = [name for name, value in _run(model, inputs).items() if isinstance(value, Tensor)]
    axes = {name: _axes(name) for name in inputs}
    try:
        with torch.no_grad():
            torch.onnx.export(
                _Outputs(model, list(inputs), outputs).eval(),
                tuple(inputs.values()),
                path,
                input_names=list(inputs),
                output_names=outputs,
                dynamic_shapes=(tuple(axes.values()),),
                dynamo=True,
                external_data=_bytes_of(model) > MAX_ONE_FILE,
                verbose=False,
            )
    except Exception as error:  # whatever the tracer could not follow
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"torch {torch.__version__} cannot export {type(model).__name__} to ONNX ({reason})"
        ) from error
    difference = compare(model, onnx_runner(path), outputs)
    return {"inputs": list(inputs), "outputs": outputs, "max_difference": difference}


def to_openvino(model: PreTrainedModel, onnx: Path, path: Path) -> dict[str, Any]:
    """Write `path` (.xml, and .bin beside it) from an ONNX file, and compare it with PyTorch."""
    (openvino,) = require("openvino", extra="openvino")
    converted = openvino.Core().read_model(onnx)
    openvino.save_model(converted, path, compress_to_fp16=False)
    outputs = [output.get_any_name() for output in converted.outputs]
    difference = compare(_as_exported(model), openvino_runner(path), outputs)
    return {"outputs": outputs, "max_difference": difference}


def onnx_runner(path: Path) -> Run:
    (onnxruntime,) = require("onnxruntime", extra="onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(inputs: Mapping[str, Tensor]) -> list[Tensor]:
        found = session.run(None, {name: value.numpy() for name, value in inputs.items()})
        return [torch.from_numpy(value) for value in found]

    return run


def openvino_runner(path: Path) -> Run:
    (openvino,) = require("openvino", extra="openvino")
    # On a processor with bfloat16 it would compute in that by itself, and be compared with float32.
    compiled = openvino.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(inputs: Mapping[str, Tensor]) -> list[Tensor]:
        found = compiled({name: value.numpy() for name, value in inputs.items()})
        return [torch.from_numpy(found[output].copy()) for output in compiled.outputs]

    return run


def compare(model: PreTrainedModel, run: Run, outputs: list[str]) -> float:
    """The largest difference between the engine's outputs and PyTorch's; RuntimeError beyond rounding."""
    largest = 0.0
    for batch, length in _COMPARED:
        inputs = _inputs(model, batch, length)
        expected = _run(model, inputs)
        for name, found in zip(outputs, run(inputs), strict=True):
            difference = float((found - expected[name]).abs().max())
            if not difference <= TOLERANCE * max(1.0, float(expected[name].abs().max())):
                raise RuntimeError(f"the engine's {name} differ from PyTorch's by {difference:g} at {batch} × {length}")
            largest = max(largest, difference)
    return largest


def require(*modules: str, extra: str) -> list[ModuleType]:
    # OpenVINO tells Intel of every use, from a process that it forks beside its threads: where that waits for a lock of
    # one of them, Python waits for it at its end for ever. Without this package it tells nobody.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        return [importlib.import_module(module) for module in modules]
    except ImportError as error:
        raise ImportError(f"{error.name} is not installed: pip install 'mgpp[{extra}]'") from None


def _as_exported(model: PreTrainedModel) -> PreTrainedModel:
    model.config.use_cache = False  # a cache is no tensor, and no output
    return model.float().cpu().eval()


def _inputs(model: PreTrainedModel, batch: int, length: int) -> dict[str, Tensor]:
    """Random tokens; the last row of several is padded, so that a mask that is ignored shows."""
    accepted = inspect.signature(model.forward).parameters
    config: Any = model.config.get_text_config()
    if "input_ids" not in accepted or not getattr(config, "vocab_size", None):
        raise ValueError(f"{type(model).__name__} does not read tokens: only models of text are exported to engines")
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(config.vocab_size // 2, config.vocab_size, (batch, length), generator=generator)
    mask = torch.ones_like(ids)
    if batch > 1:
        mask[-1, -(length // 3) :] = 0
    made = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": ids[:, : length - 2]}
    if getattr(config, "type_vocab_size", 0) > 1:
        made["token_type_ids"] = (torch.arange(length) > length // 2).long().repeat(batch, 1)
    if not model.config.is_encoder_decoder:
        del made["decoder_input_ids"]
    return {name: made[name] for name in _INPUTS if name in made and name in accepted}


def _bytes_of(model: nn.Module) -> int:
    return sum(parameter.nbytes for parameter in model.parameters())


def _axes(name: str) -> dict[int, str]:
    return {0: "batch", 1: "decoder_length" if name.startswith("decoder") else "length"}


@torch.no_grad()
def _run(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> dict[str, Any]:
    return dict(model(**inputs))
