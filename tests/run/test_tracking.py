"""A run that TensorBoard follows: where its files lie, and when they go."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("datasets")

from mgpp.cli import main
from mgpp.run import RunConfig, run
from tests.test_trackers import scalars


def test_what_tensorboard_wrote_outlives_the_checkpoints(config):
    pytest.importorskip("tensorboard")
    run(replace(config, report_to=("tensorboard",)))
    folder = Path(config.output)
    assert not (folder / "checkpoints").exists()
    seen = scalars(folder / "tensorboard")
    assert dict(seen["train/sparsity"])[10] == pytest.approx(0.75)
    assert {"train/loss", "eval/accuracy"} <= seen.keys()
    run(config, overwrite=True)
    assert not (folder / "tensorboard").exists()


def test_a_config_with_trackers_comes_back_whole_and_one_from_before_them_too(config):
    told = replace(config, report_to=("tensorboard", "wandb")).to_dict()
    assert RunConfig.from_dict(told).report_to == ("tensorboard", "wandb")
    del told["report_to"]
    assert RunConfig.from_dict(told) == config


def test_an_unknown_tracker_is_one_line_and_writes_nothing(config, tmp_path, capsys):
    options = ["--sparsity", "0.5", "--report-to", "crystal-ball", "--output", str(tmp_path / "none")]
    assert main(["prune", config.model, config.data, *options]) == 2
    assert "report_to=crystal-ball: it is not installed, or not a tracker" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
