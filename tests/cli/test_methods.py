"""Every method goes through `mgpp prune` from end to end, by changing one word."""

import json

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

pytest.importorskip("datasets")

from mgpp.cli import main
from mgpp.methods import METHODS
from tests.cli.test_prune import RAMP, SHORT
from tests.tiny import PRUNABLE

# What a tiny model needs, beside the method's name.
MORE = {
    "obert": ["--set=num_grads=4", "--set=block=8", "--set=batch_size=4"],
    "losparse": ["--set=ratio=0.1"],
}
ADDS_PARAMETERS = {"losparse"}


@pytest.fixture
def pruned(tiny_bert, tiny_reviews, tmp_path, capsys):
    def call(method: str, *options: str) -> dict:
        place = ["--output", str(tmp_path / "out"), "--method", method, "--sparsity", "0.75"]
        words = ["prune", str(tiny_bert), str(tiny_reviews), *place, *SHORT, *RAMP, *MORE.get(method, []), *options]
        code = main([*words, "--json"])
        out, err = capsys.readouterr()
        assert code == 0, err
        return json.loads(out)

    return call


@pytest.mark.parametrize("method", METHODS)
def test_every_method_prunes_to_what_was_asked_and_its_folder_loads(method, pruned, tmp_path):
    result = pruned(method)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    saved = load_file(tmp_path / "out" / "model.safetensors")
    assert set(saved) == set(model.state_dict())
    assert result["method"]["method"] == method
    assert result["prunable"] == PRUNABLE
    assert result["sparsity"] == (result["zeros"] - result["added"]) / PRUNABLE
    if method in ADDS_PARAMETERS:
        return
    zeros = sum(int((saved[name] == 0).sum()) for name in saved if "encoder.layer" in name and saved[name].ndim == 2)
    assert zeros == result["zeros"] == int(0.75 * PRUNABLE)
    assert (result["sparsity"], result["added"]) == (0.75, 0)


def test_layers_that_a_method_changed_are_merged_and_the_card_says_so(pruned, tiny_reviews, tmp_path, capsys):
    result = pruned("losparse")
    assert result["added"] > 0
    assert 0.75 <= result["sparsity"] < 0.75 + 32 / PRUNABLE  # whole rows go
    assert main(["evaluate", str(tmp_path / "out"), str(tiny_reviews), "--device", "cpu", "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert scored["metrics"] == pytest.approx(result["after"], abs=1e-4)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "They are merged here (mgpp.merge_)" in card
    assert f"({result['zeros']:,} of {PRUNABLE:,} weights zero)" in card
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert not any(key.startswith("mgpp") for key in config)


def test_a_low_rank_part_that_is_too_large_is_refused_before_anything_is_written(
    tiny_bert, tiny_reviews, tmp_path, capsys
):
    place = ["--output", str(tmp_path / "out"), "--method", "losparse", "--sparsity", "0.75", "--set=ratio=0.5"]
    assert main(["prune", str(tiny_bert), str(tiny_reviews), *place, *SHORT, *RAMP]) == 2
    assert "the low-rank part of ratio=0.5 alone has" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_any_method_takes_a_teacher(pruned, tiny_bert, tiny_reviews, tmp_path, capsys):
    dense = tmp_path / "dense"
    assert main(["prune", str(tiny_bert), str(tiny_reviews), "-o", str(dense), *SHORT, "--method", "none"]) == 0
    capsys.readouterr()
    options = ["--teacher", str(dense), "--distil-temperature=3", "--distil-weight=0.8", "--distil-hidden=0.1"]
    result = pruned("platon", *options)
    assert result["teacher"] == {"model": str(dense), "temperature": 3.0, "weight": 0.8, "hidden_weight": 0.1}
    assert result["sparsity"] == 0.75


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--teacher", "/nowhere"], "teacher: /nowhere is no model folder"),
        (["--teacher", "nobody/nothing"], "teacher: 'nobody/nothing' is no local folder"),
        (["--teacher", "x", "--distil-weight", "1.5"], "distil_weight=1.5: it must be the teacher's share"),
        (["--teacher", "x", "--distil-temperature", "0"], "distil_temperature=0.0: it must be a number greater than 0"),
        (["--distil-weight", "0.9"], "distil_weight=0.9 and no teacher"),
    ],
)
def test_a_wrong_teacher_is_one_line_and_exit_code_2(options, told, tiny_bert, tiny_reviews, tmp_path, capsys):
    place = ["--output", str(tmp_path / "out"), "--sparsity", "0.75"]
    assert main(["prune", str(tiny_bert), str(tiny_reviews), *place, *SHORT, *RAMP, *options]) == 2
    err = capsys.readouterr().err
    lines = [line for line in err.splitlines() if line.startswith("mgpp: ")]
    assert len(lines) == 1
    assert told in lines[0]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("structure", "zeros"), [("2:4", PRUNABLE // 2), ("4x4", int(0.73 * PRUNABLE) // 16 * 16)])
def test_a_structure_reaches_the_saved_file(structure, zeros, tiny_bert, tiny_reviews, tmp_path, capsys):
    sparsity = [] if ":" in structure else ["--sparsity=0.73"]
    place = ["--output", str(tmp_path / "out"), f"--set=structure={structure}", *sparsity]
    assert main(["prune", str(tiny_bert), str(tiny_reviews), *place, *SHORT, *RAMP, "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["zeros"] == zeros
    assert result["method"]["structure"] == structure
    assert "asked for" not in err  # it is as sparse as blocks can make it
    assert f"in the structure {structure}" in err
    saved = load_file(tmp_path / "out" / "model.safetensors")
    pruned = [weight for name, weight in saved.items() if "encoder.layer" in name and weight.ndim == 2]
    for weight in pruned:
        if structure == "2:4":
            assert ((weight != 0).unflatten(1, (-1, 4)).sum(-1) <= 2).all()
        else:
            kept = (weight != 0).unflatten(0, (-1, 4)).unflatten(2, (-1, 4)).sum((1, 3))
            assert set(kept.unique().tolist()) <= {0, 16}
