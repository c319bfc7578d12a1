"""Cells are run once, go on where they stopped, and fail alone; what came out is on disk at any time."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("datasets")

from mgpp.compare import compare
from mgpp.compare.grid import AUTO
from mgpp.compare.orchestrate import check_plan
from mgpp.compare.pool import environment, launch
from mgpp.compare.results import as_table, failures, how
from mgpp.run import RunInterrupted, run
from mgpp.run.reasons import reason_of
from tests.run.test_resume import Killed, stop_with
from tests.tiny import At

NAMES = ["gmp-0.5-0", "platon-0.5-0", "gmp-0.75-0", "platon-0.75-0"]


@pytest.fixture
def single(comparison):
    return replace(comparison, seeds=[0])


@pytest.fixture
def gmp_alone(single):
    return replace(single, methods=["gmp"], settings={"gmp": single.settings["gmp"]})


def test_means_and_standard_deviations_are_over_seeds(comparison, pretending, tmp_path):
    pretending.scores = {"gmp-0.5-0": 0.7, "gmp-0.5-1": 0.8, "dense-0": 0.9, "dense-1": 0.9}
    results = compare(comparison, launch=pretending)
    assert as_table(results) == [
        ["accuracy", "dense", "0.5", "0.75"],
        ["dense", "0.9000 ± 0.0000", "", ""],
        ["gmp", "", "0.7500 ± 0.0707", "0.5000 ± 0.0000"],
        ["platon", "", "0.5000 ± 0.0000", "0.5000 ± 0.0000"],
    ]
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == results
    assert [cell["status"] for cell in results["cells"]] == ["finished"] * 10
    assert results["cells"][2]["result"]["versions"] == {"mgpp": "0"}
    text = (tmp_path / "out" / "results.md").read_text()
    assert "| gmp |  | 0.7500 ± 0.0707 | 0.5000 ± 0.0000 |" in text
    assert "mean ± standard deviation, seeds 0, 1" in text


def test_one_seed_has_no_spread(single, pretending):
    results = compare(single, launch=pretending)
    assert as_table(results)[2] == ["gmp", "", "0.5000", "0.5000"]
    assert results["summary"][1]["std"] is None


def test_finished_cells_are_never_run_again_and_more_may_be_asked(single, gmp_alone, pretending):
    compare(single, launch=pretending)
    assert sorted(pretending.begun) == sorted(["dense-0", *NAMES])
    pretending.begun.clear()
    again = compare(single, launch=pretending)
    assert pretending.begun == []
    assert [cell["status"] for cell in again["cells"]] == ["finished"] * 5
    compare(replace(gmp_alone, sparsities=[0.5, 0.25]), launch=pretending)
    assert pretending.begun == ["gmp-0.25-0"]


def test_runs_that_were_not_asked_for_again_are_named(single, gmp_alone, pretending):
    compare(single, launch=pretending)
    told: list[str] = []
    compare(gmp_alone, launch=pretending, tell=told.append)
    assert "2 more runs in cells, platon-0.5-0 among them, were not asked for: the table leaves them out" in told


def test_a_folder_of_somebody_else_is_refused_and_left_as_it_was(single, pretending, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.md").write_text("mine")
    with pytest.raises(ValueError, match=r"no comparison's, results.md among them"):
        compare(single, launch=pretending)
    assert (tmp_path / "out" / "results.md").read_text() == "mine"


def test_another_config_is_refused_with_the_difference_and_nothing_is_run(single, pretending):
    compare(single, launch=pretending)
    pretending.begun.clear()
    changed = replace(single, training={**single.training, "learning_rate": 1e-3})
    with pytest.raises(ValueError, match=r"dense-0 holds another run \(learning_rate: was 0.005, now 0.001\)"):
        compare(changed, launch=pretending)
    held = replace(single, settings={**single.settings, "gmp": {**single.settings["gmp"], "hold": True}})
    with pytest.raises(ValueError, match=r"gmp-0.5-0 holds another run \(hold: was False, now True\)"):
        compare(held, launch=pretending)
    assert pretending.begun == []


DEATHS = {
    "os.kill(os.getpid(), 9)": "killed, most likely because the memory was full: fewer --workers",
    "os.kill(os.getpid(), 15)": "killed by signal 15",
    "print(json.dumps({'reason': 'out of memory: do this'})); sys.exit(1)": "out of memory: do this",
    "sys.exit(0)": "ended with exit code 0 before its result was written",
    "print('noise'); sys.exit(3)": "ended with exit code 3",
}


@pytest.mark.parametrize(("act", "reason"), DEATHS.items())
def test_a_cell_that_fails_is_marked_with_its_reason_and_the_others_go_on(act, reason, single, pretending, tmp_path):
    pretending.acts = {"gmp-0.5-0": act}
    told: list[str] = []
    results = compare(single, launch=pretending, tell=told.append)
    assert len(failures(results)) == 1
    assert failures(results)[0].startswith(f"gmp-0.5-0: {reason}")
    assert as_table(results)[2:] == [["gmp", "", "failed", "0.5000"], ["platon", "", "0.5000", "0.5000"]]
    assert any("gmp-0.5-0 failed" in line for line in told)
    assert f"- gmp-0.5-0: {reason}" in (tmp_path / "out" / "results.md").read_text()
    pretending.acts, pretending.begun = {}, []
    assert failures(compare(single, launch=pretending)) == []
    assert pretending.begun == ["gmp-0.5-0"]


def test_some_seeds_failing_is_said_beside_the_mean(comparison, pretending):
    pretending.acts = {"gmp-0.5-1": "sys.exit(1)"}
    assert as_table(compare(comparison, launch=pretending))[2][2] == "0.5000 (1 of 2)"


def test_pupils_of_a_dense_run_that_failed_have_failed_too(comparison, pretending):
    pretending.acts = {"dense-1": "sys.exit(1)"}
    results = compare(replace(comparison, teacher=AUTO), launch=pretending)
    failed = failures(results)
    assert len(failed) == 5
    assert all("its teacher dense-1 failed: ended with exit code 1" in line for line in failed[1:])
    assert set(pretending.begun) == {"dense-0", "dense-1", *NAMES}


def test_a_process_that_cannot_be_started_is_a_cell_that_failed(single, pretending):
    def launch(cell, *rest):
        if cell.name == "gmp-0.5-0":
            raise OSError("no more processes")
        return pretending(cell, *rest)

    assert failures(compare(single, launch=launch)) == [
        "gmp-0.5-0: its process could not be started: no more processes"
    ]


def test_workers_run_side_by_side_and_share_the_threads(single, pretending, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    pretending.acts = dict.fromkeys(NAMES, "time.sleep(0.5)")
    compare(replace(single, sparsities=[0.5]), launch=pretending)
    began = time.perf_counter()
    compare(single, launch=pretending, workers=2)
    assert {env["OMP_NUM_THREADS"] for env in pretending.environments[-2:]} == {"3"}
    assert time.perf_counter() - began < 10


def test_each_worker_has_a_gpu_where_there_are_several(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert [environment(slot, 3)["CUDA_VISIBLE_DEVICES"] for slot in range(3)] == ["4", "7", "4"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4")
    assert "CUDA_VISIBLE_DEVICES" not in environment(0, 3)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"methods": ["gmp", "platon", "magic"]}, "method='magic' is not one of"),
        ({"sparsities": [1.5]}, "sparsity=1.5"),
        ({"settings": {"gmp": {"end": 50}}}, "end=50 is past the run's last step 10"),
        ({"teacher": "/nowhere"}, "teacher: /nowhere is no model folder"),
    ],
)
def test_what_would_fail_in_every_cell_is_refused_before_any_is_run(change, told, single, pretending, tmp_path):
    with pytest.raises((ValueError, OSError), match=told):
        compare(replace(single, **change), launch=pretending)
    assert pretending.begun == []
    assert not (tmp_path / "out").exists()


def test_bad_data_is_refused_before_any_cell_is_run(single, pretending):
    with pytest.raises(FileNotFoundError, match=r"absent.csv is not there"):
        compare(replace(single, training={**single.training, "data": "absent.csv"}), launch=pretending)
    assert pretending.begun == []


def test_rows_for_a_teacher_to_come_are_looked_at_before_any_cell_is_run(single, pretending, tmp_path):
    training = {**single.training, "unlabelled": "absent.csv"}
    with pytest.raises(FileNotFoundError, match=r"absent.csv is not there"):
        compare(replace(single, teacher=AUTO, training=training), launch=pretending)
    assert pretending.begun == []
    assert not (tmp_path / "out").exists()


def test_schedules_are_tried_on_the_steps_that_pruned_runs_have(gmp_alone, tmp_path):
    more = tmp_path / "more.csv"
    more.write_text("text\n" + "good film\n" * 80)
    training = {**gmp_alone.training, "max_steps": None, "epochs": 1.0, "batch_size": 8, "unlabelled": str(more)}
    ramp = {"gmp": {"start": 0, "end": 12, "every": 1}}
    asked = replace(gmp_alone, teacher=AUTO, training=training, settings=ramp)
    check_plan(asked, asked.pruned())
    without = replace(asked, training={**training, "unlabelled": None})
    with pytest.raises(ValueError, match="end=12 is past the run's last step 6"):
        check_plan(without, without.pruned())


def test_a_page_says_how_long_dense_and_pruned_runs_were_where_they_differ():
    about = {"versions": {"mgpp": "1"}, "hardware": {"gpu": None, "processor": "a CPU"}, "eval_rows": 32}
    dense = {**about, "steps": 2, "train_rows": 48, "config": {"unlabelled": None}}
    pruned = {**about, "steps": 3, "train_rows": 88, "config": {"unlabelled": "more.csv"}}
    told = {"model": "bert", "data": "rows", "metric": "accuracy", "seeds": [0], "teacher": AUTO}
    both = {**told, "cells": [{"result": dense}, {"result": None}, {"result": pruned}]}
    assert (
        "2 steps over 48 rows dense, 3 steps over 88 rows pruned, with `more.csv`, which has no labels, 32 rows scored"
        in how(both)
    )
    assert "2 steps over 48 rows, 32 rows scored" in how({**told, "cells": [{"result": dense}, {"result": dense}]})


def test_an_interrupt_stops_the_processes_and_the_finished_stay(single, pretending, tmp_path):
    begun = tmp_path / "begun"
    pretending.acts = {"platon-0.5-0": f"open({str(begun)!r}, 'w').close(); time.sleep(60)"}

    def interrupt(line: str) -> None:
        while "gmp-0.5-0" in line and not begun.exists():
            time.sleep(0.05)
        if "gmp-0.5-0" in line:
            raise KeyboardInterrupt

    began = time.perf_counter()
    with pytest.raises(RunInterrupted, match=r"interrupted; \d of 5 runs are finished in .*: the same command goes on"):
        compare(single, launch=pretending, workers=2, tell=interrupt)
    assert time.perf_counter() - began < 30
    pretending.acts, pretending.begun = {}, []
    compare(single, launch=pretending)
    assert "platon-0.5-0" in pretending.begun
    assert "gmp-0.5-0" not in pretending.begun


def test_two_comparisons_in_one_folder_are_one_too_many(single, pretending, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="another comparison is at work in"):
            compare(single, launch=pretending)
    assert pretending.begun == []


def test_the_plot_is_drawn_where_matplotlib_is_and_missed_without_noise(single, pretending, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    pretending.acts = {"gmp-0.5-0": "sys.exit(1)", "gmp-0.75-0": "sys.exit(1)"}
    compare(single, launch=pretending)
    assert (tmp_path / "out" / "metric.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out" / "metric.pdf").read_bytes().startswith(b"%PDF")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    told: list[str] = []
    compare(replace(single, output=str(tmp_path / "plain")), launch=pretending, tell=told.append)
    assert told[-1] == "no plot was drawn, matplotlib is not installed: pip install 'mgpp[plot]'"
    assert not list((tmp_path / "plain").glob("metric.*"))
    assert (tmp_path / "plain" / "results.md").exists()


# With processes that do train

# In its sixth step the run asks for a pebibyte.
STARVED = """
import sys, torch
from mgpp.compare import worker
from tests.tiny import At
run, starve = worker.run, At(5, lambda model: torch.empty(1 << 50, dtype=torch.uint8))
worker.run = lambda config, **how: run(config, callbacks=[starve], **how)
sys.exit(worker.main(sys.argv[1]))
"""


def test_a_real_cell_that_runs_out_of_memory_has_failed_and_goes_on_when_asked_again(single, pretending):
    def starved(cell, environment, log):
        if cell.name != "gmp-0.5-0":
            return pretending(cell, environment, log)
        job = json.dumps({"config": cell.config.to_dict(), "resume": cell.is_begun})
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([sys.executable, "-c", STARVED, job], env={**os.environ, **environment}, **pipes)

    results = compare(single, launch=starved)
    (failed,) = failures(results)
    assert failed.startswith("gmp-0.5-0: out of memory: lower --batch-size and raise --accumulate")
    assert "the last good checkpoint is" in failed
    assert [cell["status"] for cell in results["cells"]].count("finished") == 4


def test_a_real_cell_is_the_run_of_its_config_and_goes_on_where_it_was_killed(gmp_alone, tmp_path):
    asked = replace(gmp_alone, sparsities=[0.75], teacher=AUTO)
    dense, cell = asked.dense()[0], asked.pruned()[0]
    run(dense.config)
    whole = replace(cell.config, output=str(tmp_path / "whole"))
    run(whole)
    with pytest.raises(Killed):
        run(cell.config, callbacks=[At(7, stop_with(Killed))])
    results = compare(asked)
    assert failures(results) == []
    assert "resuming after step 6" in (tmp_path / "out" / "logs" / f"{cell.name}.log").read_text()
    assert (cell.folder / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert results["cells"][1]["result"]["teacher"]["model"] == str(dense.folder)


def test_a_worker_whose_parent_is_gone_stops_at_its_last_checkpoint(gmp_alone, tmp_path):
    endless = replace(gmp_alone, training={**gmp_alone.training, "max_steps": 1_000_000})
    cell = endless.pruned()[0]
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell's background
    process = launch(cell, {"OMP_NUM_THREADS": "1"}, tmp_path / "log")
    signal.signal(signal.SIGINT, former)
    try:
        deadline = time.monotonic() + 60
        while not list(cell.folder.glob("checkpoints/checkpoint-*/whole.json")) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert process.poll() is None, (tmp_path / "log").read_text()
        process.stdin.close()
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert cell.is_begun
    assert not cell.is_finished
    assert list(cell.folder.glob("checkpoints/checkpoint-*/whole.json"))


def test_the_program_ends_with_code_1_where_a_cell_failed_and_says_why(single, tmp_path):
    words = [sys.executable, "-m", "mgpp", "compare", single.training["model"], single.training["data"]]
    words += ["-o", str(tmp_path / "out"), "--methods", "losparse", "--sparsities", "0.75", "--max-steps=10"]
    words += ["--batch-size=8", "--lr=5e-3", "--device=cpu", "--set=start=2", "--set=end=8", "--set=losparse.ratio=0.9"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 1, done.stderr
    assert "failed" in done.stdout
    assert "losparse-0.75-0 failed: sparsity=0.75 leaves" in done.stderr
    assert (Path(tmp_path) / "out" / "cells" / "dense-0" / "result.json").exists()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("std::bad_alloc"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: 1 bytes"),
        OSError(12, "Cannot allocate memory"),
    ],
)
def test_every_way_to_run_out_of_memory_is_called_that(error):
    assert reason_of(error).startswith("out of memory: lower --batch-size")
