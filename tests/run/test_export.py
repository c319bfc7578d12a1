"""A run's folder becomes a sparse one, a checkpoint or a dense engine: read back, scored, and told in a card."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertModel,
)

pytest.importorskip("datasets")

import mgpp
from mgpp.artifact import hub
from mgpp.layers import factorize_
from mgpp.run import RunConfig, evaluate, run
from mgpp.run import export as exporting
from mgpp.run.card import read_front_matter
from mgpp.run.export import ExportConfig, export
from mgpp.targets import find_targets
from mgpp.tasks import Source
from tests.tiny import PRUNABLE, RAMP
from tests.toy import assert_identical

FILES = {"README.md", "config.json", "tokenizer.json", "tokenizer_config.json"}


@pytest.fixture(scope="module")
def pruned(tiny_bert, tiny_reviews, tmp_path_factory) -> Path:
    """What `mgpp prune` leaves, of a base model under the Apache licence."""
    base = Path(shutil.copytree(tiny_bert, tmp_path_factory.mktemp("base") / "bert"))
    (base / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Base\n", encoding="utf-8")
    folder = tmp_path_factory.mktemp("run") / "out"
    config = RunConfig(
        model=str(base), data=str(tiny_reviews), output=str(folder), method=mgpp.MGPP(**RAMP), max_steps=40,
        batch_size=8, learning_rate=5e-3, device="cpu",
    )  # fmt: skip
    run(config)
    return folder


@pytest.fixture
def to(pruned, tmp_path) -> Callable[..., ExportConfig]:
    def config(**given: Any) -> ExportConfig:
        return ExportConfig(**{"model": str(pruned), "output": str(tmp_path / "out"), **given})

    return config


@pytest.fixture
def score(tiny_reviews) -> Callable[[str], dict[str, Any]]:
    return lambda model: evaluate(model, Source(data=str(tiny_reviews)), device="cpu")


def test_auto_model_loads_what_prune_wrote(pruned):
    body = AutoModel.from_pretrained(pruned)
    whole = AutoModelForSequenceClassification.from_pretrained(pruned)
    assert_identical(body.state_dict(), whole.bert.state_dict())
    assert sum(int((weight == 0).sum()) for weight in find_targets(body).values()) == int(0.75 * PRUNABLE)


def test_a_sparse_folder_holds_the_same_model_its_tokenizer_and_a_card(to, pruned, tmp_path):
    result = export(to())
    folder = tmp_path / "out"
    assert {file.name for file in folder.iterdir()} == FILES | {"model.sparse.safetensors"} == set(result["files"])
    expected = AutoModelForSequenceClassification.from_pretrained(pruned)
    assert_identical(mgpp.load_sparse(folder).state_dict(), expected.state_dict())
    assert AutoTokenizer.from_pretrained(folder)("the film")["input_ids"] == [2, 5, 6, 3]
    assert (result["exact"], result["max_error"], result["dense"]) == (True, 0.0, False)
    assert (result["zeros"], result["prunable"], len(result["layers"])) == (int(0.75 * PRUNABLE), PRUNABLE, 12)
    assert result["bytes"] == (folder / "model.sparse.safetensors").stat().st_size
    assert json.loads(json.dumps(result)) == result


def test_scores_before_and_after_an_exact_export_are_equal(to, score, pruned, tiny_reviews):
    told: list[str] = []
    result = export(to(), score=score, tell=told.append)
    assert result["before"] == result["after"] == json.loads((pruned / "result.json").read_text())["after"]
    assert (result["metric"], result["rows"]) == ("accuracy", 32)
    assert [line.split(":")[0] for line in told] == ["before", "after"]


def test_int8_reports_its_error_and_the_metric_before_and_after(to, score, tmp_path):
    result = export(to(values="int8", embeddings="int8"), score=score)
    assert not result["exact"]
    assert 0 < result["max_error"] < 0.05
    assert result["before"]["loss"] != result["after"]["loss"]
    assert result["after"]["loss"] == pytest.approx(result["before"]["loss"], abs=0.02)
    assert result["after"] == score(str(tmp_path / "out"))["metrics"]


def test_the_card_tells_licence_method_metric_layers_and_how_to_load(to, score, tmp_path):
    export(to(values="bf16"), score=score)
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    front = read_front_matter(card)
    assert (front["license"], front["library_name"]) == ("apache-2.0", "mgpp")
    assert front["tags"] == ["mgpp", "pruned", "sparse"]
    assert front["pipeline_tag"] == "text-classification"
    assert card.count("| bert.encoder.layer.") == 12
    assert f"3,072 of {PRUNABLE:,} prunable weights are zero" in card
    assert "| method | mgpp |" in card
    assert "| learning_rate | 0.005 |" in card
    assert "| | before export | exported |" in card
    code = card.split("```python\n")[1].split("```")[0].replace("path/or/hub-id", str(tmp_path / "out"))
    names: dict[str, Any] = {}
    exec(code, names)
    assert type(names["model"]).__name__ == "BertForSequenceClassification"


def test_without_rows_the_card_has_the_scores_of_the_run(to, pruned, tmp_path):
    export(to())
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    accuracy = json.loads((pruned / "result.json").read_text())["after"]["accuracy"]
    assert f"| accuracy | {accuracy:.4f} |" in card
    assert "32 evaluation rows, after pruning and before export" in card


def test_a_sparse_folder_can_be_exported_again_and_becomes_a_checkpoint(to, pruned, tmp_path):
    export(to(output=str(tmp_path / "sparse")))
    result = export(to(model=str(tmp_path / "sparse"), output=str(tmp_path / "plain"), format="checkpoint"))
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "plain")
    assert_identical(plain.state_dict(), AutoModelForSequenceClassification.from_pretrained(pruned).state_dict())
    assert result["dense"]
    card = (tmp_path / "plain" / "README.md").read_text(encoding="utf-8")
    assert read_front_matter(card)["license"] == "apache-2.0"
    assert "| method | mgpp |" in card
    assert "BertForSequenceClassification.from_pretrained" in card


def test_a_sparse_folder_is_trained_on_like_any_other(to, tiny_reviews, tmp_path):
    export(to(output=str(tmp_path / "sparse")))
    config = RunConfig(
        model=str(tmp_path / "sparse"), data=str(tiny_reviews), output=str(tmp_path / "again"),
        method=mgpp.MGPP(**RAMP), max_steps=10, batch_size=8, device="cpu",
    )  # fmt: skip
    assert run(config)["zeros"] == int(0.75 * PRUNABLE)


def test_a_model_that_mgpp_never_saw_is_exported_too(to, tiny_bert, tmp_path):
    result = export(to(model=str(tiny_bert)))
    assert (result["architecture"], result["zeros"]) == ("BertModel", 0)
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "## Method" not in card
    assert read_front_matter(card)["tags"] == ["mgpp"]


def test_a_head_that_the_file_does_not_hold_is_left_out_rather_than_drawn(to, tiny_bert, tmp_path):
    base = Path(shutil.copytree(tiny_bert, tmp_path / "base"))
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | {"architectures": ["BertForSequenceClassification"]}))
    assert export(to(model=str(base)))["architecture"] == "BertModel"


def test_weights_that_would_be_random_are_refused(to, tmp_path):
    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    BertForMaskedLM(config).save_pretrained(tmp_path / "base")  # without the pooler that a BertModel has
    fields = json.loads((tmp_path / "base" / "config.json").read_text())
    (tmp_path / "base" / "config.json").write_text(json.dumps(fields | {"architectures": ["BertModel"]}))
    with pytest.raises(ValueError, match=r"lack pooler.dense.bias, pooler.dense.weight, which would be random"):
        export(to(model=str(tmp_path / "base")))


def test_a_low_rank_model_stays_one_in_a_sparse_file_and_is_merged_in_a_checkpoint(to, tmp_path):
    torch.manual_seed(0)
    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    model = BertModel(config).eval()
    factorize_(model, find_targets(model), ratio=0.3)
    model.save_pretrained(tmp_path / "lowrank")
    export(to(model=str(tmp_path / "lowrank"), output=str(tmp_path / "sparse")))
    export(to(model=str(tmp_path / "lowrank"), output=str(tmp_path / "plain"), format="checkpoint"))
    assert_identical(mgpp.load_sparse(tmp_path / "sparse").state_dict(), model.state_dict())
    assert_identical(AutoModel.from_pretrained(tmp_path / "plain").state_dict(), mgpp.merge_(model).state_dict())


@pytest.mark.parametrize("form", ["onnx", "openvino"])
def test_dense_engines_are_labelled_as_such(form, to, tmp_path, monkeypatch):
    told = {"inputs": ["input_ids"], "outputs": ["logits"], "max_difference": 1e-7}

    def onnx(model, path):
        path.write_bytes(b"onnx")
        return told

    def openvino(model, source, path):
        assert source.read_bytes() == b"onnx"
        path.write_bytes(b"xml")
        return {"outputs": ["logits"], "max_difference": 1e-7}

    monkeypatch.setattr(exporting, "to_onnx", onnx)
    monkeypatch.setattr(exporting, "to_openvino", openvino)
    result = export(to(format=form))
    name = {"onnx": "model.onnx", "openvino": "openvino_model.xml"}[form]
    assert (result["dense"], result["max_difference"], result["inputs"]) == (True, 1e-7, ["input_ids"])
    assert {file.name for file in (tmp_path / "out").iterdir()} == FILES | {name}
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "For a dense engine: it stores the zeros and computes with them" in card


# What goes wrong


def test_openvino_without_onnx_names_the_extra_that_brings_both(to, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"onnx is not installed: pip install 'mgpp\[openvino\]'"):
        export(to(format="openvino"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": "gguf"}, "format='gguf' is not one of sparse, checkpoint, onnx, openvino"),
        ({"values": "int4"}, "values='int4' is not one of"),
        ({"values": "int8", "format": "onnx"}, "values='int8' is for the sparse format"),
        ({"zstd": True, "format": "checkpoint"}, "zstd=True is for the sparse format"),
        ({"private": True}, "nothing to push"),
        ({"push": "a/b/c"}, "push='a/b/c': write it as OWNER/NAME"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(change, told, to):
    with pytest.raises(ValueError, match=told):
        to(**change)


def test_a_folder_with_something_in_it_is_replaced_only_when_asked(to, pruned, tmp_path):
    export(to(values="bf16"))
    with pytest.raises(ValueError, match="holds an export: replace it"):
        export(to())
    assert export(to(overwrite=True))["exact"]
    with pytest.raises(ValueError, match=r"holds an export in another format \(sparse\)"):
        export(to(format="checkpoint", overwrite=True))
    with pytest.raises(ValueError, match="is the model's own folder"):
        export(to(output=str(pruned), overwrite=True))


def test_files_that_are_no_exports_are_never_replaced(to, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "README.md").write_text("my notes")
    with pytest.raises(ValueError, match="holds files that are no export's"):
        export(to(output=str(mine), overwrite=True))
    assert [path.read_text() for path in mine.iterdir()] == ["my notes"]


def test_a_model_that_is_not_there_is_named(to, tmp_path):
    with pytest.raises(FileNotFoundError, match="is no model folder"):
        export(to(model=str(tmp_path / "absent")))
    with pytest.raises(OSError, match="the model 'owner/absent' cannot be loaded: check the name and the connection"):
        export(to(model="owner/absent"))


def test_a_model_in_a_folder_that_is_not_whole_is_no_matter_of_the_connection(to, pruned, tmp_path):
    cut = tmp_path / "cut"
    shutil.copytree(pruned, cut)
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"the model in .*cut cannot be loaded, is each of its files whole\?"):
        export(to(model=str(cut)))
    (cut / "config.json").unlink()
    with pytest.raises(ValueError, match="the run there has not ended, and goes on with --resume"):
        export(to(model=str(cut)))
    (cut / "run.json").unlink()
    with pytest.raises(ValueError, match="no model: give one that save_pretrained wrote, or a hub id"):
        export(to(model=str(cut)))


def test_nothing_is_written_when_scoring_fails(to, tmp_path):
    def fail(model):
        raise ValueError("no rows")

    calls = iter([lambda model: {"metrics": {}, "metric": "", "data": "", "rows": 0}, fail])
    with pytest.raises(ValueError, match="no rows"):
        export(to(), score=lambda model: next(calls)(model))
    assert not (tmp_path / "out").exists()


# The hub


class Hub:
    """What the hub was asked for."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    def create_repo(self, name: str, **options: Any) -> Any:
        self.asked |= options

        class Made(str):
            repo_id = name

        return Made(f"https://hub/{name}")

    def upload_folder(self, **options: Any) -> None:
        self.asked |= options


def test_a_push_uploads_what_was_exported_and_nothing_else(to, tmp_path, monkeypatch):
    asked = Hub()
    monkeypatch.setattr(hub, "HfApi", lambda: asked)
    export(to())
    (tmp_path / "out" / "private.txt").write_text("mine")
    result = export(to(push="me/model", private=True, overwrite=True))
    assert result["url"] == "https://hub/me/model"
    assert (asked.asked["repo_id"], asked.asked["private"]) == ("me/model", True)
    assert set(asked.asked["allow_patterns"]) == FILES | {"model.sparse.safetensors"}
    assert Path(asked.asked["folder_path"]) == tmp_path / "out"


def test_a_push_that_fails_leaves_the_folder_and_says_so(to, tmp_path, monkeypatch):
    def fail():
        raise ConnectionError("no network")

    monkeypatch.setattr(hub, "HfApi", lambda: replace_attribute(Hub(), "create_repo", lambda *a, **k: fail()))
    with pytest.raises(OSError, match=r"is written, and pushing it to me/model failed: .* \(no network\)"):
        export(to(push="me/model"))
    assert (tmp_path / "out" / "model.sparse.safetensors").exists()


def replace_attribute(thing: Any, name: str, value: Any) -> Any:
    setattr(thing, name, value)
    return thing


def test_a_sparse_model_is_loaded_by_its_hub_id(to, tmp_path, monkeypatch):
    export(to())
    asked: dict[str, Any] = {}

    def download(name, **options):
        asked.update(options, name=name)
        return str(tmp_path / "out")

    monkeypatch.setattr(hub, "snapshot_download", download)
    assert type(mgpp.load_sparse("me/model")).__name__ == "BertForSequenceClassification"
    assert asked == {"name": "me/model", "allow_patterns": ["config.json", "generation_config.json", "model.sparse*"]}
