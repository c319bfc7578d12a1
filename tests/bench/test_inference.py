"""`mgpp bench --inference`: every engine on the same model, and what is not installed is named, not hidden."""

import importlib.util
import json

import pytest
import torch
from transformers import BertConfig, BertModel

from mgpp.bench import engines, inference, measure_inference
from mgpp.bench.overhead import SHAPES, Shape
from mgpp.cli import main
from mgpp.runtime import summary
from mgpp.targets import find_targets

TINY = BertConfig(
    vocab_size=50, hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=128,
    max_position_embeddings=32,
)  # fmt: skip
QUICK = {"batches": (1,), "length": 8, "rounds": 1}

pytestmark = pytest.mark.filterwarnings("ignore:no layer of BertModel is faster sparse")


@pytest.fixture(autouse=True)
def tiny_shape(monkeypatch):
    monkeypatch.setitem(SHAPES, "tiny", Shape(TINY, 1, 8))
    monkeypatch.setattr(inference, "REST", 0.0)


def by_name(rows):
    return {row["name"]: row for row in rows}


def test_each_sparsity_and_batch_has_its_row_against_torch():
    rows = measure_inference(
        "tiny", sparsities=(0.8, 0.9), batches=(1, 3), length=8, rounds=2, only=["torch bf16", "sparse", "sparse 2x1"]
    )
    names = ["torch fp32", "torch bf16", "sparse 80%", "sparse 2x1 80%", "sparse 90%", "sparse 2x1 90%"]
    assert [(row["name"], row["batch"]) for row in rows] == [(name, batch) for batch in (1, 3) for name in names]
    plain = {row["batch"]: row["median_ms"] for row in rows if row["name"] == "torch fp32"}
    for row in rows:
        assert row["speedup"] == pytest.approx(plain[row["batch"]] / row["median_ms"], rel=0.01, abs=6e-4)
        assert row["error"] < (0.1 if row["name"] == "torch bf16" else 1e-5)
    assert by_name(rows)["sparse 90%"]["sparsity"] == pytest.approx(0.9, abs=1e-3)


def test_rows_that_share_their_columns_are_pruned_in_pairs():
    model = BertModel(TINY)
    inference._prune_(model, 0.9, 2)
    for weight in find_targets(model).values():
        upper, lower = weight[::2] != 0, weight[1::2] != 0
        assert torch.equal(upper, lower)
    assert inference._sparsity(model) == pytest.approx(0.9, abs=1e-3)


def test_kept_memory_is_asked_for_once_and_refused_where_it_cannot_be(monkeypatch):
    asked = []
    monkeypatch.setattr(inference, "keep_memory", lambda: asked.append(True) or True)
    measure_inference("tiny", **QUICK, only=["sparse"])
    assert asked == []
    measure_inference("tiny", **QUICK, only=["sparse"], kept=True)
    assert asked == [True]
    monkeypatch.setattr(inference, "keep_memory", lambda: False)
    with pytest.raises(RuntimeError, match="leave --keep-memory out"):
        measure_inference("tiny", **QUICK, only=["sparse"], kept=True)


def test_sparse_is_measured_with_torchs_attention_where_asked():
    both = by_name(measure_inference("tiny", **QUICK, sparsities=[0.9], only=["sparse", inference.TORCHS_ATTENTION]))
    fast, plain = both["sparse 90%"], both[f"{inference.TORCHS_ATTENTION} 90%"]
    assert "attention by the kernel" not in plain["detail"]
    assert plain["error"] < 1e-5
    assert fast["error"] < 1e-5


def test_an_engine_that_is_not_installed_is_named_in_its_row(monkeypatch):
    def missing(name):
        raise ImportError(name=name)

    monkeypatch.setattr(importlib, "import_module", missing)
    rows = by_name(measure_inference("tiny", **QUICK, only=["OpenVINO bf16", "ONNX Runtime fp32"]))
    assert rows["OpenVINO bf16"]["missing"] == "openvino is not installed: pip install 'mgpp[openvino]'"
    assert "median_ms" not in rows["OpenVINO bf16"]
    assert rows["torch fp32"]["speedup"] == 1.0


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        ("OpenVINO fp32", ["openvino"]),
        ("ONNX Runtime fp32", ["onnxruntime", "onnxscript"]),
    ],
)
def test_a_dense_engine_computes_what_torch_computes(name, packages):
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is in the extra 'openvino'")
    row = by_name(measure_inference("tiny", **QUICK, only=[name]))[name]
    assert row["error"] < 1e-5
    assert packages[0] in row["detail"]


def test_a_pruned_model_is_measured_as_it_is():
    model = BertModel(TINY)
    inference._prune_(model, 0.75432, 1)
    rows = measure_inference("mine", **QUICK, only=["sparse"], load=lambda: model)
    assert [row["name"] for row in rows] == ["torch fp32", "sparse 75%"]
    assert rows[0]["shape"] == "mine"
    assert rows[1]["sparsity"] == round(inference._sparsity(model), 4)


def test_the_sparse_engine_leaves_the_model_as_it_was():
    model = BertModel(TINY).eval()
    inference._prune_(model, 0.9, 1)
    engines.sparse(model, inference._tokens(model, 1, 8))
    assert summary(model).sparse_layers == 0


def test_activations_are_left_out_where_that_is_asked_for():
    rows = measure_inference("tiny", **QUICK, sparsities=(0.9,), only=["sparse without activations"])
    assert [row["name"] for row in rows] == ["torch fp32", "sparse without activations 90%"]
    assert rows[1]["error"] < 1e-5
    model = BertModel(TINY)
    inference._drop_activations_(model)
    assert isinstance(model.encoder.layer[0].intermediate.intermediate_act_fn, torch.nn.Identity)


def test_a_side_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="only='tensorrt' is not one of torch fp32"):
        measure_inference("tiny", **QUICK, only=["tensorrt"])


def test_the_command_prints_and_keeps_its_provenance(tmp_path, capsys):
    words = ["bench", "--inference", "--shape", "tiny", "--rounds", "1", "--length", "8", "--batches", "1"]
    words += ["--sparsities", "0.9", "--only", "sparse", "--output", str(tmp_path / "out.json")]
    assert main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in printed["rows"]] == ["torch fp32", "sparse 90%"]
    assert {"command", "at", "commit", "versions", "hardware"} <= set(printed)
    assert json.loads((tmp_path / "out.json").read_text()) == [printed]
    assert main(words) == 0
    assert "sparse 90%" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--sparsities", "0.9,many"], "sparsities='0.9,many': comma-separated, such as 0.8,0.9"),
        (["--sparsities", "0.1"], "sparsities='0.1': each from 0.3 to below 1"),
        (["--batches", "0"], "batches='0': each at least 1"),
        (["--length", "0"], "length=0: at least 1"),
        (["--device", "cuda"], "device='cuda': sparse inference is for the cpu"),
    ],
)
def test_a_wrong_setting_is_one_line(words, line, capsys):
    assert main(["bench", "inference", "--shape", "tiny", *words]) == 2
    assert line in capsys.readouterr().err
