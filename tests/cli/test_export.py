"""`mgpp export`, and `evaluate` and `inspect` on what it wrote."""

import json
from pathlib import Path

import pytest

pytest.importorskip("datasets")

import mgpp
from mgpp.cli import export as command
from mgpp.cli import main
from mgpp.run import RunConfig, run
from tests.tiny import PRUNABLE, RAMP, reviews, write_csv


@pytest.fixture(scope="module")
def pruned(tiny_bert, tiny_reviews, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "pruned"
    config = RunConfig(
        model=str(tiny_bert), data=str(tiny_reviews), output=str(folder), method=mgpp.MGPP(**RAMP), max_steps=10,
        batch_size=8, learning_rate=5e-3, device="cpu",
    )  # fmt: skip
    run(config)
    return folder


def refusal(words: list[str], capsys: pytest.CaptureFixture) -> str:
    capsys.readouterr()
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("mgpp: ")
    return err


def test_one_command_makes_a_sparse_folder_that_evaluate_and_inspect_read(pruned, tiny_reviews, tmp_path, capsys):
    out = str(tmp_path / "out")
    rows = ["--data", str(tiny_reviews), "--device", "cpu"]
    assert main(["export", str(pruned), "-o", out, "--values", "int8", *rows, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["before"].keys() == result["after"].keys() == {"loss", "accuracy", "f1", "matthews"}
    assert main(["evaluate", out, str(tiny_reviews), "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == result["after"]
    assert main(["inspect", out, "--json"]) == 0
    stored = json.loads(capsys.readouterr().out)["stored"]
    assert stored["bytes"] == result["bytes"]
    assert stored["kept"]["bert.encoder.layer.0.output.dense.weight"] < 512
    assert main(["inspect", out]) == 0
    assert f"stored     {result['bytes']:,} bytes for {result['dense_bytes']:,}" in capsys.readouterr().out


def test_a_model_is_scored_as_its_run_was(tiny_bert, tmp_path, capsys):
    rows = [{"review": row["text"], "stars": row["label"]} for row in reviews(40)]
    data, out = str(write_csv(tmp_path / "rows.csv", rows)), str(tmp_path / "out")
    how = ["--text=review", "--label=stars", "--method=none", "--max-steps=1", "--device=cpu"]
    assert main(["prune", str(tiny_bert), data, "-o", out, *how]) == 0
    capsys.readouterr()
    assert main(["export", out, "--data", data, "--device=cpu", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["after"] == result["before"]


def test_the_summary_tells_size_exactness_and_where_it_is(pruned, capsys):
    assert main(["export", str(pruned), "--no-zstd"]) == 0
    out = capsys.readouterr().out
    assert "read back        │ exact" in out
    assert f"3,072 / {PRUNABLE:,}" in out
    assert (pruned.parent / "pruned-sparse" / "model.sparse.safetensors").is_file()


@pytest.mark.parametrize(("there", "expected"), [(object(), True), (None, False)])
def test_zstd_is_used_where_it_is_installed_unless_said_otherwise(there, expected, pruned, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(command, "find_spec", lambda name: there)
    monkeypatch.setattr(command, "export_model", lambda config, **kwargs: asked.append(config) or {})
    monkeypatch.setattr(command, "summary", lambda result: "")
    for more in ([], ["--zstd"], ["--no-zstd"], ["--format", "checkpoint"]):
        assert main(["export", str(pruned), "-o", str(tmp_path / "out"), *more]) == 0
    assert [config.zstd for config in asked] == [expected, True, False, False]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--values", "int3"], "values='int3' is not one of fp32, bf16, fp16, int8"),
        (["--embeddings", "none"], "embeddings='none' is not one of"),
        (["--format", "gguf"], "format='gguf' is not one of sparse, checkpoint, onnx, openvino"),
        (["--shard-size", "big"], "shard_size='big': a number of bytes, or such as 500MB or 5GB"),
        (["--format", "onnx", "--zstd"], "zstd=True is for the sparse format"),
        (["--data", "absent.csv"], "absent.csv is not there"),
        (
            ["--data", "absent.csv", "--format", "onnx"],
            "onnx is compared with PyTorch by its outputs: leave --data out",
        ),
        (["--private"], "nothing to push"),
    ],
)
def test_a_mistake_is_one_line(more, told, pruned, tmp_path, capsys):
    assert told in refusal(["export", str(pruned), "-o", str(tmp_path / "out"), *more], capsys)
    assert not (tmp_path / "out").exists()


def test_a_broken_sparse_file_is_one_line_to_every_command(pruned, tiny_reviews, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["export", str(pruned), "-o", str(out), "--no-zstd", "--json"]) == 0
    file = out / "model.sparse.safetensors"
    file.write_bytes(file.read_bytes()[:-7])
    for words in (["inspect", str(out)], ["evaluate", str(out), str(tiny_reviews)], ["export", str(out)]):
        assert "the file is damaged or was altered" in refusal(words, capsys)
