"""ONNX and OpenVINO give PyTorch's outputs, for any batch and length, or are not written."""

import importlib.util
import subprocess
import sys

import pytest
import torch
from transformers import ViTConfig, ViTModel

from mgpp.artifact import engines
from mgpp.artifact.engines import compare, onnx_runner, openvino_runner, require, to_onnx, to_openvino
from tests.artifact.models import make

needs_openvino = pytest.mark.skipif(
    importlib.util.find_spec("openvino") is None, reason="it is in the extra 'openvino'"
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """One export serves all: it takes seconds."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    return path, to_onnx(make("bert"), path)


def test_onnx_has_free_axes_and_pytorchs_outputs(exported):
    path, told = exported
    assert told["inputs"] == ["input_ids", "attention_mask", "token_type_ids"]
    assert told["outputs"] == ["logits"]
    assert told["max_difference"] < 1e-5
    assert [file.name for file in path.parent.iterdir()] == ["model.onnx"]
    model, run = make("bert"), onnx_runner(path)
    for batch, length in ((1, 1), (5, 33)):
        ids = torch.randint(0, 50, (batch, length))
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
        with torch.no_grad():
            torch.testing.assert_close(run(inputs)[0], model(**inputs).logits, rtol=1e-5, atol=1e-6)


@needs_openvino
def test_openvino_has_pytorchs_outputs(exported, tmp_path):
    told = to_openvino(make("bert"), exported[0], tmp_path / "model.xml")
    assert told["outputs"] == ["logits"]
    assert told["max_difference"] < 1e-5
    assert {file.name for file in tmp_path.iterdir()} == {"model.xml", "model.bin"}
    assert compare(make("bert"), openvino_runner(tmp_path / "model.xml"), ["logits"]) == told["max_difference"]


def test_an_engine_that_computes_something_else_is_refused(exported):
    other = make("bert", seed=1)
    with torch.no_grad():
        other.classifier.bias += 1
    with pytest.raises(RuntimeError, match=r"the engine's logits differ from PyTorch's by .* at 1 × 5"):
        compare(other, onnx_runner(exported[0]), ["logits"])


def test_an_engine_that_gives_nan_is_refused():
    model = make("bert")
    with pytest.raises(RuntimeError, match="differ from PyTorch's by nan"):
        compare(model, lambda inputs: [torch.full((len(inputs["input_ids"]), 3), torch.nan)], ["logits"])


def test_a_model_that_reads_no_tokens_is_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8
    )
    with pytest.raises(ValueError, match="ViTModel does not read tokens"):
        to_onnx(ViTModel(config), tmp_path / "model.onnx")


def test_what_the_tracer_cannot_follow_is_told_in_one_line(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")

    def fail(*args, **kwargs):
        raise NotImplementedError("line one\nline two")

    monkeypatch.setattr(engines.torch.onnx, "export", fail)
    with pytest.raises(ValueError, match=r"cannot export BertForSequenceClassification to ONNX \(line one line two\)"):
        to_onnx(make("bert"), tmp_path / "model.onnx")


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    def without(name):
        raise ImportError("none", name=name)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ImportError, match=r"openvino is not installed: pip install 'mgpp\[openvino\]'"):
        require("openvino", extra="openvino")


@needs_openvino
def test_openvino_reports_its_use_to_nobody_and_leaves_no_process():
    script = """if True:
        import multiprocessing, sys
        from mgpp.artifact.engines import require
        (openvino,) = require("openvino", extra="openvino")
        from openvino.tools.ovc.telemetry_utils import init_ovc_telemetry
        init_ovc_telemetry().send_event("ov", "import", "general_import")
        reporting = sorted(name for name in sys.modules if name.startswith("openvino_telemetry."))
        print(reporting, multiprocessing.active_children())
    """
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert told.stdout == "[] []\n"
