"""`mgpp watch`: a line for a log, a picture for a terminal, an end with the run."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

from mgpp.cli import main
from mgpp.cli.watch import picture, sparkline
from mgpp.disk import alone
from mgpp.report.live import Watcher
from tests.report.runs import STEPS, write_run
from tests.report.test_live import Going, whole


def test_a_finished_run_is_one_line(tmp_path, capsys):
    assert main(["watch", str(write_run(tmp_path / "run"))]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.startswith("step 100/100  sparsity 0.8")
    assert out.endswith("finished\n")


def test_a_growing_run_is_followed_to_its_end(tmp_path, capsys):
    going = Going(tmp_path / "run")
    going.begin()
    going.go(10)

    def train() -> None:
        for step in (50, STEPS):
            time.sleep(0.3)
            going.go(step)
        time.sleep(0.3)
        going.finish()

    training = threading.Thread(target=train)
    training.start()
    with alone(tmp_path / "run", "run"):
        assert main(["watch", str(tmp_path / "run"), "--every", "0.05", "--json"]) == 0
        training.join()
    sights = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(sight["step"], sight["is_finished"]) for sight in sights] == [
        (10, False), (50, False), (STEPS, False), (STEPS, True),
    ]  # fmt: skip


def test_looking_once_does_not_wait(tmp_path, capsys):
    going = Going(tmp_path / "run")
    with alone(tmp_path / "run", "run"):
        assert main(["watch", str(tmp_path / "run"), "--once"]) == 0
        going.begin()
        going.go(10)
        assert main(["watch", str(tmp_path / "run"), "--once"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "step 0  time left not known yet"
    assert second.startswith("step 10/100  sparsity 0.05  cut 0.01  loss 0.1")


@pytest.mark.parametrize("words", [[], ["--once"]])
def test_a_stopped_run_is_one_line_with_the_way_on_and_the_end(words, tmp_path, capsys):
    going = Going(tmp_path / "run")
    going.begin()
    going.go(10)
    whole(going, 10)
    os.utime(going.path, (1000, 1000))
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1000))
    assert main(["watch", str(tmp_path / "run"), *words]) == 0
    assert capsys.readouterr().out == (
        f"step 10/100  sparsity 0.05  cut 0.01  loss 0.1  stopped, nothing written since {since}; the last good "
        f"checkpoint is {tmp_path / 'run' / 'checkpoints' / 'checkpoint-10'}: the same command with --resume goes on "
        "from there\n"
    )


def test_a_run_that_stops_while_it_is_watched_ends_the_watching(tmp_path, capsys):
    going = Going(tmp_path / "run")
    going.begin()
    going.go(10)

    def train() -> None:
        with alone(going.folder, "run"):
            started.set()
            time.sleep(0.5)

    started = threading.Event()
    training = threading.Thread(target=train)
    training.start()
    started.wait()
    assert main(["watch", str(tmp_path / "run"), "--every", "0.05", "--json"]) == 0
    training.join()
    sights = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(sight["step"], sight["is_stopped"]) for sight in sights] == [(10, False), (10, True)]


def test_a_run_that_was_killed_is_told_from_one_that_is_slow(tmp_path, capsys):
    going = Going(tmp_path / "run")
    going.begin()
    going.go(10)
    code = "import sys, time\nfrom pathlib import Path\nfrom mgpp.disk import alone\n"
    code += "with alone(Path(sys.argv[1]), 'run'):\n print(flush=True)\n time.sleep(60)"
    training = subprocess.Popen([sys.executable, "-c", code, str(going.folder)], stdout=subprocess.PIPE)
    try:
        training.stdout.readline()
        os.utime(going.path, (1000, 1000))  # since 1970
        assert main(["watch", str(going.folder), "--once"]) == 0
    finally:
        training.kill()
        training.communicate()
    assert main(["watch", str(going.folder)]) == 0
    slow, killed = capsys.readouterr().out.splitlines()
    assert "nothing written since" in slow
    assert "stopped" not in slow
    assert "stopped, nothing written since" in killed


def test_the_picture_shows_sparsity_cut_loss_and_what_came_back(tmp_path):
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    watcher = Watcher(write_run(tmp_path / "run"))
    console.print(picture(watcher, watcher.look()))
    shown = console.export_text()
    for words in ("MGPP at 0.9", "step 100/100", "half-widths", "came back", "in the spike", "accuracy 0.7000"):
        assert words in shown
    dense = Watcher(write_run(tmp_path / "dense", method=None))
    console.print(picture(dense, dense.look()))
    assert "dense" in console.export_text()


def test_the_picture_of_a_stopped_run_says_how_it_goes_on(tmp_path):
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    going = Going(tmp_path / "run")
    going.begin()
    watcher = Watcher(going.folder, is_at_work=lambda folder: False)
    console.print(picture(watcher, watcher.look()))
    shown = console.export_text()
    assert "stopped, nothing written since" in shown
    assert "--resume" in shown


def test_a_sparkline_goes_from_the_lowest_to_the_highest():
    assert sparkline([0.0, 1.0, 2.0, 7.0]) == "▁▂▃█"
    assert sparkline([3.0]) == "▁"
    assert len(sparkline([float(i) for i in range(1000)])) == 40


@pytest.mark.parametrize(
    ("words", "told"), [(["nowhere"], "there is no run in nowhere"), (["run", "--every", "0"], "every=0.0: seconds")]
)
def test_a_mistake_is_one_line(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run")
    assert main(["watch", *words]) == 2
    assert told in capsys.readouterr().err
