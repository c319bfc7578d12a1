"""Runs are read as they were written: finished, going on, or with nothing but records."""

import json

import pytest

from mgpp import report
from mgpp.report.layers import layers_of, lost_by_block, lost_by_kind, lost_by_layer, thin
from tests.report.runs import STEPS, write_run


def test_a_finished_run_is_read_whole(tmp_path):
    run = report.read_run(write_run(tmp_path / "one"))
    assert (run.name, run.label, run.step, run.last) == ("one", "MGPP 0.9", STEPS, STEPS)
    assert run.result["after"]["accuracy"] == 0.8
    assert run.logged("loss")[0] == list(range(5, STEPS + 1, 5))
    assert [record["step"] for record in run.looks[:5]] == [4, 8, 12, 16, 20]
    assert run.events[0]["sparsity"] == 0
    assert run.cuts[0] is run.events[1]  # nothing was pruned at the first: its cut says nothing


def test_a_run_that_goes_on_is_read_from_its_checkpoints(tmp_path):
    write_run(tmp_path / "run" / "checkpoints", finished=False, until=30)
    (tmp_path / "run" / "run.json").write_text(json.dumps({"config": {"model": "mini"}}))
    run = report.read_run(tmp_path / "run")
    assert (run.step, run.last, run.result, run.config) == (30, STEPS, None, {"model": "mini"})


def test_records_of_ones_own_trainer_are_enough(tmp_path):
    run = report.read_run(write_run(tmp_path / "own", finished=False))
    assert (run.result, run.config) == (None, None)
    assert "MGPP 0.9" in run._repr_html_()


def test_runs_of_one_name_are_told_apart(tmp_path):
    folders = [write_run(tmp_path / place / "run") for place in ("a", "b")]
    assert [run.name for run in report.read_runs([*folders, write_run(tmp_path / "c")])] == ["a/run", "b/run", "c"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"event": "start", "step": 0, "method": null}\n{"event": \n', "is damaged"),
        ('{"event": "log", "step": 1}\n', "does not begin with a start record"),
        ("", "does not begin with a start record"),
    ],
)
def test_a_damaged_file_is_named(content, told, tmp_path):
    (tmp_path / "records.jsonl").write_text(content)
    with pytest.raises(ValueError, match=told):
        report.read_run(tmp_path)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no folder .*nowhere"):
        report.read_run(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no records\.jsonl in"):
        report.read_run(tmp_path)
    (tmp_path / "cells").mkdir()
    with pytest.raises(ValueError, match="is a comparison: name runs of it"):
        report.read_run(tmp_path)
    with pytest.raises(ValueError, match="is given twice"):
        report.read_runs([write_run(tmp_path / "a"), tmp_path / "a"])
    with pytest.raises(ValueError, match="no run given"):
        report.read_runs([])


def test_matrices_are_named_by_kind_and_block_and_by_stack_where_there_are_two():
    (layer,) = layers_of({"bert.encoder.layer.3.output.dense.weight": 10})
    assert (layer.kind, layer.block, layer.label) == ("output.dense", 3, "3 output.dense")
    two = {"model.encoder.layers.0.fc1.weight": 1, "model.decoder.layers.1.fc1.weight": 1}
    assert [layer.kind for layer in layers_of(two)] == ["encoder fc1", "decoder fc1"]
    assert [layer.kind for layer in layers_of({"transformer.h.0.mlp.c_fc.weight": 1})] == ["mlp.c_fc"]
    assert [layer.kind for layer in layers_of({"head.weight": 1})] == ["head"]


def test_what_lost_most_comes_first(tmp_path):
    run = report.read_run(write_run(tmp_path / "run"))
    zeros = run.events[-1]["zeros"]
    layers = lost_by_layer(run)
    assert layers[0].what == "output.dense of block 1"
    assert layers[-1].what == "attention.self.query of block 0"
    assert layers[0].share == zeros["bert.encoder.layer.1.output.dense.weight"] / 100
    assert [part.what for part in lost_by_block(run)] == ["block 1", "block 0"]
    assert lost_by_kind(run)[0].what == "output.dense"
    assert sum(part.zeros for part in lost_by_kind(run)) == sum(zeros.values())


@pytest.mark.parametrize("most", [2, 7, 50, 1000])
def test_thinning_keeps_both_ends_and_no_more_than_asked(most):
    found = [{"step": step} for step in range(3, 900, 2)]
    kept = thin(found, most)
    assert len(kept) <= most
    assert (kept[0], kept[-1]) == (found[0], found[-1])
    assert [record["step"] for record in kept] == sorted(record["step"] for record in kept)
