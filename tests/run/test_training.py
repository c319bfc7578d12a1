"""A run ends in a folder that anyone can load, and says exactly what was done and measured."""

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

pytest.importorskip("datasets")

import mgpp
from mgpp import records
from mgpp.run import RunStopped, evaluate, run
from mgpp.run.card import read_front_matter
from mgpp.tasks import Source
from tests.tiny import PRUNABLE, RAMP, At, poison, reviews, write_csv


def test_the_folder_holds_a_model_that_from_pretrained_loads(config):
    result = run(config)
    output = Path(config.output)
    model = AutoModelForSequenceClassification.from_pretrained(output)
    zeros = sum(int((weight == 0).sum()) for name, weight in model.named_parameters() if _is_pruned(name))
    assert zeros == result["zeros"] == int(0.75 * PRUNABLE)
    assert AutoTokenizer.from_pretrained(output)("the film")["input_ids"] == [2, 5, 6, 3]
    assert {file.name for file in output.iterdir()} == {*result["files"], "result.json", "run.json"}


def _is_pruned(name: str) -> bool:
    return "encoder.layer" in name and name.endswith("weight") and "LayerNorm" not in name


def test_under_a_launcher_a_run_is_refused_before_anything_is_written(config, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="a launcher has started 2"):
        run(config)
    assert not Path(config.output).exists()


def test_the_result_says_what_was_done_and_measured(config):
    result = run(config)
    assert json.loads((Path(config.output) / "result.json").read_text()) == result
    assert result["method"]["spike_var"] == 1e-10
    assert result["schedule"] == {**RAMP, "initial_sparsity": 0.0, "last": 10, "held": False, "lr_power": 0.0}
    assert (result["target_sparsity"], result["sparsity"], result["prunable"]) == (0.75, 0.75, PRUNABLE)
    assert (result["steps"], result["train_rows"], result["eval_rows"], result["seed"]) == (10, 48, 32, 0)
    assert result["before"].keys() == result["after"].keys() == {"loss", "accuracy", "f1", "matthews"}
    assert result["versions"]["torch"] == torch.__version__
    assert result["config"] == json.loads(json.dumps(config.to_dict()))
    assert result["files"]["model.safetensors"] == (Path(config.output) / "model.safetensors").stat().st_size
    assert result["seconds"] > 0


def test_a_matrix_of_which_nothing_is_left_is_named(config, tiny_bert, tmp_path):
    small = shutil.copytree(tiny_bert, tmp_path / "small")
    weights = load_file(small / "model.safetensors")
    name = next(name for name in weights if name.endswith("layer.0.attention.self.query.weight"))
    save_file({**weights, name: 1e-6 * weights[name]}, small / "model.safetensors", metadata={"format": "pt"})
    told: list[str] = []
    result = run(replace(config, model=str(small), learning_rate=1e-9, method=mgpp.GMP(**RAMP)), tell=told.append)
    assert result["emptied"] == [f"bert.{name}"]
    (said,) = [line for line in told if line.startswith("warning: ")]
    assert said.startswith(f"warning: 1 of 12 matrices have no weight left, bert.{name} the first; by size alone")
    assert "score=curvature" in said
    whole = run(replace(config, output=str(tmp_path / "whole"), method=mgpp.GMP(**RAMP)), tell=told.append)
    assert whole["emptied"] == []
    assert len([line for line in told if line.startswith("warning: ")]) == 1


def test_a_matrix_whose_work_added_parameters_do_is_not_missing(config):
    method = mgpp.LoSparse(**{**RAMP, "sparsity": 0.734}, ratio=0.2)  # all that is left is the low-rank part
    result = run(replace(config, method=method))
    assert (result["added"], result["zeros"]) == (1088, PRUNABLE)
    assert result["emptied"] == []


def test_times_in_fractions_and_epochs_are_resolved_to_steps(config):
    result = run(replace(config, method=mgpp.GMP(sparsity=0.5, start=0.2, end="1ep", every=2)))
    assert (result["schedule"]["start"], result["schedule"]["end"]) == (2, 6)
    assert result["method"]["end"] == "1ep"


def test_records_tell_the_start_every_event_and_the_last_score(config):
    result = run(config)
    told = records.read(Path(config.output) / "records.jsonl")
    assert told[0]["event"] == "start"
    assert [record["step"] for record in told if record["event"] == "prune"] == [2, 4, 6, 8, 9, 10]
    assert told[-1]["eval_accuracy"] == result["after"]["accuracy"]


def test_evaluate_agrees_with_the_result(config):
    result = run(config)
    scored = evaluate(config.output, Source(data=config.data), device="cpu")
    assert scored["metrics"] == result["after"]
    assert (scored["zeros"], scored["prunable"]) == (result["zeros"], result["prunable"])


def test_a_dense_run_prunes_nothing_and_has_records_too(config):
    result = run(replace(config, method=None))
    told = records.read(Path(config.output) / "records.jsonl")
    assert (result["method"], result["zeros"], result["prunable"]) == (None, 0, PRUNABLE)
    assert told[0] == {"event": "start", "step": 0, "method": None, "steps": 10}
    assert [record["step"] for record in told if "loss" in record] == list(range(1, 11))


def test_a_run_repeats_itself_bit_for_bit_and_another_seed_does_not(config, tmp_path):
    results = []
    for name, seed in (("one", 0), ("two", 0), ("other", 1)):
        run(replace(config, output=str(tmp_path / name), seed=seed))
        results.append((tmp_path / name / "model.safetensors").read_bytes())
    assert results[0] == results[1] != results[2]


def test_regression_trains_and_is_scored_by_correlation(config, tmp_path):
    rows = [{"text": row["text"], "label": float(row["label"])} for row in reviews(40)]
    data = write_csv(tmp_path / "rows.csv", rows)
    result = run(replace(config, data=str(data)))
    assert result["metric"] == "pearson"
    assert result["after"].keys() == {"loss", "pearson", "spearman"}
    assert (result["train_rows"], result["eval_rows"]) == (36, 4)


def test_the_learning_rate_warms_up_and_falls_to_its_share(config):
    run(replace(config, method=None, warm_up=0.2, lr_end=0.1))
    rates = [r["learning_rate"] for r in records.read(Path(config.output) / "records.jsonl") if "learning_rate" in r]
    expected = [0.0, 0.5, *(1 - 0.9 * step / 8 for step in range(8))]
    assert rates == pytest.approx([5e-3 * share for share in expected])


@pytest.mark.parametrize("more", [{"group_by_length": True}, {"accumulate": 2}, {"precision": "bf16"}, {"lr_end": 1.0}])
def test_training_arguments_reach_the_run(config, more):
    assert run(replace(config, **more))["zeros"] == int(0.75 * PRUNABLE)


def test_scores_during_training_are_recorded(config):
    run(replace(config, eval_steps=5))
    told = records.read(Path(config.output) / "records.jsonl")
    assert [record["step"] for record in told if "eval_accuracy" in record] == [5, 10]


def test_checkpoints_are_removed_after_success_unless_wanted(config, tmp_path):
    run(config)
    assert not (Path(config.output) / "checkpoints").exists()
    run(replace(config, output=str(tmp_path / "kept")), keep_checkpoints=True)
    assert {folder.name for folder in (tmp_path / "kept" / "checkpoints").glob("checkpoint-*")} == {
        "checkpoint-9",
        "checkpoint-10",
    }


def test_the_card_carries_the_base_models_licence_and_the_layers(config, tmp_path):
    base = Path(shutil.copytree(config.model, tmp_path / "base"))
    (base / "README.md").write_text("---\nlicense: apache-2.0\ntags:\n- x\n---\n# Base\n", encoding="utf-8")
    run(replace(config, model=str(base)))
    card = (Path(config.output) / "README.md").read_text(encoding="utf-8")
    front = read_front_matter(card)
    assert front["license"] == "apache-2.0"
    assert front["tags"] == ["mgpp", "pruned", "sparse"]
    assert card.count("| bert.encoder.layer.") == 12
    assert "3,072 of 4,096 prunable weights are zero" in card


def test_a_run_that_is_not_scored_before_training_comes_out_the_same(config, tmp_path):
    other = replace(config, output=str(tmp_path / "other"), score_before=False)
    told: list[str] = []
    results = run(config), run(other, tell=told.append)
    models = [(Path(one.output) / "model.safetensors").read_bytes() for one in (config, other)]
    assert models[0] == models[1]
    assert results[0]["after"] == results[1]["after"]
    assert results[1]["before"] == {}
    assert "before training: not scored (--score-before would)" in told
    card = (tmp_path / "other" / "README.md").read_text(encoding="utf-8")
    assert f"| accuracy | – | {results[1]['after']['accuracy']:.4f} |" in card


# What goes wrong


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"method": mgpp.GMP(**{**RAMP, "end": 50})}, "end=50 is past the run's last step 10"),
        ({"method": mgpp.GMP(**{**RAMP, "start": 9})}, "start=9 is not before end=8"),
        ({"include": ("no.such.*",)}, r"include='no.such.\*' matches none"),
        ({"exclude": ("*",)}, "removes all"),
        ({"precision": "fp16"}, "precision='fp16' needs a CUDA device"),
        ({"optimizer": "adamw_tork"}, "adamw_tork"),
        ({"data": "absent.csv"}, "absent.csv is not there"),
        ({"label": "stars"}, "no column 'stars'"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(config, change, told):
    with pytest.raises((ValueError, OSError), match=told):
        run(replace(config, **change))
    assert not Path(config.output).exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"max_steps": 0}, "max_steps=0: it must be at least 1"),
        ({"epochs": 0.0}, "epochs=0.0: it must be a number greater than 0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"warm_up": 1.0}, "warm_up=1.0: it must be a share of the run"),
        ({"lr_end": 1.5}, "lr_end=1.5"),
        ({"workers": -1}, "workers=-1: it must be a number of processes, 0 to 1,024"),
        ({"workers": 10**9}, "workers=1000000000: it must be a number of processes"),
        ({"holdout": 1.0}, "holdout=1.0"),
        ({"precision": "fp8"}, "precision=fp8: it must be one of fp32, bf16, fp16"),
        ({"device": "tpu"}, "device=tpu: it must be one of auto, cpu, cuda"),
        ({"save_steps": 5, "logging_steps": 2}, "save_steps=5 is no multiple of logging_steps=2"),
    ],
)
def test_a_config_that_cannot_be_run_cannot_be_made(config, change, told):
    with pytest.raises(ValueError, match=told):
        replace(config, **change)


@pytest.mark.parametrize("method", [None, mgpp.MGPP(**RAMP)])
def test_a_loss_that_turns_nan_stops_the_run_and_the_last_checkpoint_stands(config, method):
    with pytest.raises(RunStopped, match=r"gradient of step 8 is .*last good checkpoint is .*checkpoint-6"):
        run(replace(config, method=method), callbacks=[At(7, poison)])
    weights = load_file(Path(config.output) / "checkpoints" / "checkpoint-6" / "model.safetensors")
    assert all(torch.isfinite(weight).all() for weight in weights.values())
    assert not (Path(config.output) / "result.json").exists()


def test_a_failure_before_the_first_checkpoint_leaves_nothing_behind(config):
    with pytest.raises(RunStopped, match=r"gradient of step 2 is .*nothing is left of this run"):
        run(config, callbacks=[At(1, poison)])
    assert not Path(config.output).exists()


@pytest.mark.parametrize(
    "failure",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"),
    ],
)
def test_a_full_disk_leaves_no_half_written_result(config, failure, monkeypatch):
    def full(self, folder, **kwargs):
        Path(folder).mkdir(exist_ok=True)
        (Path(folder) / "model.safetensors").write_bytes(b"half")
        raise failure

    def fill(model):
        monkeypatch.setattr(type(model), "save_pretrained", full)

    with pytest.raises(RunStopped, match=r"the disk is full: .*checkpoint-3: the same command with --resume"):
        run(config, callbacks=[At(5, fill)])
    left = [str(path.relative_to(config.output)) for path in Path(config.output).rglob("model.safetensors")]
    assert left == ["checkpoints/checkpoint-3/model.safetensors"]
