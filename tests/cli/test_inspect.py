"""`mgpp inspect`: counts without weights, and one clear line for every mistake."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub.constants
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig

from mgpp.cli import main

H, FFN, LAYERS = 24, 40, 3
BERT = {"model_type": "bert", "vocab_size": 50, "hidden_size": H, "intermediate_size": FFN, "num_attention_heads": 2}
BERT |= {"num_hidden_layers": LAYERS}
PRUNABLE = LAYERS * (4 * H * H + 2 * H * FFN)


def run(*arguments: str | Path) -> SimpleNamespace:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["inspect", *map(str, arguments)])
    return SimpleNamespace(exit_code=code, stdout=out.getvalue(), stderr=err.getvalue())


def refusal(*arguments: str | Path) -> str:
    """The one line on stderr; nothing on stdout, exit code 2, no traceback."""
    result = run(*arguments)
    assert result.exit_code == 2, result.stdout + result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("mgpp: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def write_config(folder: Path, **fields: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields))
    return folder


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return write_config(tmp_path / "bert", **BERT, architectures=["BertForSequenceClassification"])


def test_json_is_one_object_with_the_counts_and_the_layers(bert: Path) -> None:
    result = run(bert, "--json")
    record = json.loads(result.stdout)
    assert list(record) == ["prunable", "total", "layers"]
    assert record["prunable"] == PRUNABLE == sum(layer["count"] for layer in record["layers"])
    model = BertForSequenceClassification(BertConfig(**BERT))
    assert record["total"] == model.num_parameters()
    assert len(record["layers"]) == 6 * LAYERS
    assert record["layers"][4] == {
        "name": "bert.encoder.layer.0.intermediate.dense.weight",
        "shape": [FFN, H],
        "count": FFN * H,
    }


def test_a_folder_a_config_file_and_a_saved_checkpoint_say_the_same(bert: Path, tmp_path: Path) -> None:
    BertForSequenceClassification(BertConfig(**BERT)).save_pretrained(tmp_path / "saved")
    renamed = (bert / "config.json").rename(tmp_path / "my_bert.json")
    outputs = [run(source, "--json").stdout for source in (renamed, tmp_path / "saved", tmp_path / "saved/config.json")]
    assert outputs[0] == outputs[1] == outputs[2] != ""


def test_a_bare_model_type_is_its_default_config() -> None:
    record = json.loads(run("bert", "--json").stdout)
    assert (record["prunable"], record["total"]) == (84_934_656, 109_482_240)


def test_a_folder_named_like_a_type_is_meant_only_if_it_holds_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bert").mkdir()
    assert json.loads(run("bert", "--json").stdout)["prunable"] == 84_934_656
    write_config(Path("bert"), **BERT)
    assert json.loads(run("bert", "--json").stdout)["prunable"] == PRUNABLE


def test_no_weight_is_allocated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(
        "mgpp.cli.inspect.find_targets",
        lambda network, **_: seen.append(network) or {"w": torch.nn.Parameter(torch.empty(1, 1, device="meta"))},
    )
    LlamaConfig(architectures=["LlamaForCausalLM"]).save_pretrained(tmp_path)
    assert run(tmp_path, "--json").exit_code == 0
    assert type(seen[0]).__name__ == "LlamaForCausalLM"
    assert {parameter.device.type for parameter in seen[0].parameters()} == {"meta"}


def test_equal_blocks_are_folded_into_one_row() -> None:
    lines = run("llama").stdout.splitlines()
    assert len(lines) < 20
    (row,) = [line.split() for line in lines if "q_proj" in line]
    assert row == ["self_attn.q_proj.weight", "4096", "×", "4096", "0-31", "536,870,912"]
    assert ["prunable", "6,476,005,376"] in [line.split() for line in lines]


def test_all_shows_every_weight_by_its_full_name(bert: Path) -> None:
    lines = run(bert, "--all").stdout.splitlines()
    assert [line for line in lines if line.split()[:1] == ["bert.encoder.layer.2.attention.self.value.weight"]]
    assert sum(".weight" in line and "kept dense" not in line for line in lines) == 6 * LAYERS


def test_totals_and_the_largest_dense_weights_are_shown(bert: Path) -> None:
    output = run(bert).stdout
    total = json.loads(run(bert, "--json").stdout)["total"]
    assert [f"{PRUNABLE:,}", f"{total:,}", f"{PRUNABLE / total:.1%}"] == [
        line.split()[-1] for line in output.splitlines() if line.startswith(("prunable", "total", "share"))
    ]
    assert f"bert.embeddings.position_embeddings.weight {512 * H:,}" in output


def test_patterns_choose_and_gaps_in_the_blocks_show(bert: Path) -> None:
    result = run(bert, "--include", "*.query.weight", "--include", "classifier.*", "--exclude", "*.layer.1.*")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["attention.self.query.weight", "24", "×", "24", "0,", "2", f"{2 * H * H:,}"] in rows
    assert ["classifier.weight", "2", "×", "24", "48"] in rows


def test_an_unknown_architecture_falls_back_to_the_body(tmp_path: Path) -> None:
    folder = write_config(tmp_path, **BERT, architectures=["BertForSomethingOfMine"])
    assert run(folder).stdout.startswith("BertModel")


@pytest.mark.parametrize("typed", ["brt", "Bert"])
def test_a_mistyped_model_type_gets_the_close_ones(typed: str) -> None:
    assert f"unknown model type {typed!r}; did you mean bert" in refusal(typed)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert f"no folder or file '{tmp_path / 'nowhere'}'" in refusal(tmp_path / "nowhere")
    assert "no folder or file './nowhere'" in refusal("./nowhere")
    assert "no folder or file 'nowhere.json'" in refusal("nowhere.json")


def test_a_folder_without_config_points_to_the_checkpoint_inside(tmp_path: Path) -> None:
    assert f"no config.json in folder '{tmp_path}': give the folder" in refusal(tmp_path)
    write_config(tmp_path / "checkpoint-500", **BERT)
    assert f"did you mean {tmp_path / 'checkpoint-500'}?" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{broken", "is not valid JSON (Expecting property name"),
        (b"\xff\xfe\x00", "is not valid JSON"),
        (b"[1, 2]", "has no model_type"),
        (b'{"hidden_size": 8}', 'has no model_type: add the one it is, such as "model_type": "bert"'),
        (b'{"model_type": "brrt"}', "unknown model type 'brrt'"),
        (b'{"model_type": "bert", "hidden_size": "x"}', "hidden_size"),
        (b'{"model_type": "bert", "hidden_act": "swosh"}', "cannot build a model of type bert"),
        (b'{"model_type": "bert", "num_attention_heads": 7}', "is not a multiple of the number of attention heads"),
        (b'{"model_type": "bert", "num_hidden_layers": 0}', "found no repeated transformer blocks"),
        (b'{"model_type": "resnet"}', "ResNetModel has no Linear weight"),
    ],
)
def test_a_bad_config_is_refused_with_the_reason(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    assert said in refusal(tmp_path)


def test_a_weights_file_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 16)
    assert "is not a .json file: give the folder it is in" in refusal(tmp_path / "model.safetensors")


def test_a_pattern_that_matches_nothing_is_named_with_the_names_it_saw(bert: Path) -> None:
    message = refusal(bert, "--exclude", "*.qeury.*")
    assert "exclude='*.qeury.*' matches none of the 18 weights" in message
    assert "bert.encoder.layer.*.attention.self.query.weight" in message


@pytest.mark.parametrize("typed", ["someone/something", "bert-base-uncasd", "distilgpt2"])
def test_an_unreachable_hub_is_one_line(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    message = refusal(typed)
    assert f"cannot read the config of {typed!r}" in message
    assert "check the name and the connection, or give a folder" in message


def test_a_models_own_code_runs_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = write_config(tmp_path, model_type="own", auto_map={"AutoConfig": "own.OwnConfig", "AutoModel": "own.Own"})
    trace = tmp_path / "it_ran"
    (tmp_path / "own.py").write_text(
        f"open({str(trace)!r}, 'w').close()\n"
        "from transformers import BertConfig, BertModel\n"
        "class OwnConfig(BertConfig):\n    model_type = 'own'\n"
        "class Own(BertModel):\n    config_class = OwnConfig\n"
    )
    assert "if you trust that code, pass --trust-remote-code" in refusal(folder)
    assert not trace.exists()
    result = run(folder, "--trust-remote-code", "--json")
    assert "warning: running the Python code" in result.stderr
    assert json.loads(result.stdout)["prunable"] == 84_934_656
