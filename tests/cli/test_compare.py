"""`mgpp compare`: what is typed becomes the comparison that was meant, and a mistake is one line."""

import json

import pytest

pytest.importorskip("datasets")

from mgpp.cli import compare as command
from mgpp.cli import main
from mgpp.compare.grid import AUTO

RESULTS = {
    "metric": "accuracy",
    "methods": ["gmp"],
    "sparsities": [0.5],
    "summary": [
        {"method": None, "sparsity": 0.0, "mean": 0.9, "std": 0.01, "runs": 2, "of": 2, "failed": 0},
        {"method": "gmp", "sparsity": 0.5, "mean": 0.8, "std": 0.02, "runs": 2, "of": 2, "failed": 0},
    ],
    "cells": [],
}


@pytest.fixture
def asked(monkeypatch):
    """The comparison that the command would have run, and with how many workers."""
    seen = {}

    def compare(comparison, *, workers, tell):
        seen.update(comparison=comparison, workers=workers)
        return RESULTS

    monkeypatch.setattr(command.comparing, "compare", compare)
    return seen


def call(*options: str) -> int:
    return main(["compare", "model", "data", "--output", "out", *options])


def test_options_become_a_comparison(asked, capsys):
    options = ["--methods", "gmp, mgpp", "--sparsities", "0.8,.9", "--seeds", "0,7", "--workers", "3", "--lr", "1e-4"]
    options += ["--set", "end=0.5", "--set", "gmp.hold=true", "--teacher", "auto", "--distil-weight", "0.8"]
    assert call(*options) == 0
    made = asked["comparison"]
    assert (made.methods, made.sparsities, made.seeds) == (["gmp", "mgpp"], [0.8, 0.9], [0, 7])
    assert made.settings == {"gmp": {"end": 0.5, "hold": True}, "mgpp": {"end": 0.5}}
    assert (made.teacher, asked["workers"]) == (AUTO, 3)
    config = made.pruned()[0].config
    assert (config.model, config.data, config.learning_rate, config.distil_weight) == ("model", "data", 1e-4, 0.8)
    assert config.workers == 0
    assert "0.8000 ± 0.0200" in capsys.readouterr().out


def test_json_prints_one_object_and_nothing_else(asked, capsys):
    assert call("--methods", "gmp", "--json") == 0
    assert json.loads(capsys.readouterr().out) == RESULTS


@pytest.mark.parametrize(("teacher", "meant"), [("none", None), ("auto", AUTO), ("runs/dense", "runs/dense")])
def test_a_teacher_is_none_the_dense_run_or_a_folder(teacher, meant, asked):
    assert call("--methods", "gmp", "--teacher", teacher) == 0
    assert asked["comparison"].teacher == meant


def test_a_cell_that_failed_makes_exit_code_1(asked, monkeypatch, capsys):
    monkeypatch.setitem(RESULTS, "cells", [{"name": "gmp-0.5-0", "status": "failed", "reason": "out of memory"}])
    assert call("--methods", "gmp") == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--methods", "gmp", "--sparsities", "much"], "sparsities='much': numbers, comma-separated, such as 0.8,0.9"),
        (["--methods", "gmp", "--seeds", "0.5"], "seeds='0.5': numbers"),
        (["--methods", ""], "methods is empty"),
        (["--methods", "gmp,gmp"], "methods: gmp is given twice"),
        (["--methods", "gmp", "--set", "mgpp.spike_var=1e-9"], "settings for mgpp, which is not compared"),
        (["--methods", "gmp", "--set", "hold"], "write it as KEY=VALUE"),
        (["--methods", "magic"], "method='magic' is not one of"),
        (["--methods", "gmp", "--set", "speed=1"], "gmp has no setting speed"),
        (["--methods", "gmp", "--workers", "0"], "workers=0: at least 1"),
        (["--methods", "gmp", "--workers", "1000000"], "workers=1000000: at least 1 run at a time, and at most 1,024"),
        (["--methods", "gmp", "--distil-weight", "0.9"], "distil_weight=0.9 and no teacher"),
        (["--methods", "gmp", "--max-steps", "0"], "max_steps=0: it must be at least 1"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(options, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(*options) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if line.startswith("mgpp: ")]
    assert len(lines) == 1
    assert told in lines[0]
    assert not (tmp_path / "out").exists()
