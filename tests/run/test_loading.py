"""Rows are tokenised once, loaded beside the training, and the time it waits for them is told."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import DataCollatorWithPadding

pytest.importorskip("datasets")

from mgpp.run import RunInterrupted, run
from mgpp.run.folder import RunFolder
from tests.run.test_resume import outcome, stop_with
from tests.tiny import At


def test_a_second_process_finds_the_rows_tokenised(config):
    run(config)
    script = f"""
from transformers import PreTrainedTokenizerFast
def refuse(*args, **kwargs):
    raise AssertionError("tokenised again")
PreTrainedTokenizerFast._encode_plus = refuse
from mgpp.tasks import Source, training_task
task = training_task("text", {config.model!r}, Source(data={config.data!r}), seed=0)
print(len(task.train), task.eval_rows)
"""
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert finished.stdout == "48 32\n", finished.stderr


def test_what_is_written_does_not_depend_on_where_the_rows_came_from(config, tmp_path, monkeypatch):
    run(config)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "empty")
    fresh = replace(config, output=str(tmp_path / "fresh"))
    run(fresh)
    for name in ("tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        assert (Path(config.output) / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()
    assert json.loads((tmp_path / "fresh" / "tokenizer.json").read_text())["truncation"] is None


def test_processes_that_load_change_nothing_over_several_epochs(config, tmp_path):
    loaded = replace(config, workers=1, output=str(tmp_path / "loaded"), eval_steps=5)
    run(replace(config, eval_steps=5))
    run(loaded)
    assert outcome(loaded) == outcome(config)


@pytest.mark.parametrize("stop", [4, 7])
def test_with_such_processes_a_stopped_run_resumes_to_the_same_bits(stop, config, tmp_path):
    """Of six steps to an epoch: before the first is over, and after."""
    loaded = replace(config, workers=1, max_steps=14, method=None)
    whole = replace(loaded, workers=0, output=str(tmp_path / "whole"))
    run(whole)
    with pytest.raises(RunInterrupted):
        run(loaded, callbacks=[At(stop, stop_with(KeyboardInterrupt))])
    run(loaded, resume=True)
    assert outcome(loaded) == outcome(whole)


@pytest.fixture
def slow(monkeypatch):
    """A loader that takes 0.05 s for every batch."""
    collate = DataCollatorWithPadding.__call__

    def waits(self, features):
        time.sleep(0.05)
        return collate(self, features)

    monkeypatch.setattr(DataCollatorWithPadding, "__call__", waits)


def test_the_result_says_what_share_of_the_time_went_into_waiting(config, slow):
    result = run(replace(config, save_steps=1000))
    assert 9 * 0.05 / result["seconds"] <= result["loader_share"] + 1e-3
    assert result["loader_share"] < 1


def test_a_loader_that_keeps_up_costs_next_to_nothing(config):
    assert run(replace(config, save_steps=1000))["loader_share"] < 0.5


def test_a_resumed_run_counts_what_it_waited_before(config, slow):
    with pytest.raises(RunInterrupted):
        run(config, callbacks=[At(7, stop_with(KeyboardInterrupt))])
    marker = json.loads((RunFolder(config.output).newest_checkpoint() / "whole.json").read_text())
    assert marker["waited"] >= 4 * 0.05
    result = run(config, resume=True)
    assert result["loader_share"] * result["seconds"] > marker["waited"]
