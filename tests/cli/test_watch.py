"""`mgpp watch`: a line for a log, a picture for a terminal, an end with the run."""

import json
import threading
import time

import pytest
from rich.console import Console

from mgpp.cli import main
from mgpp.cli.watch import picture, sparkline
from mgpp.report.live import Watcher
from tests.report.runs import STEPS, write_run
from tests.report.test_live import Going


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
    assert main(["watch", str(tmp_path / "run"), "--every", "0.05", "--json"]) == 0
    training.join()
    sights = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(sight["step"], sight["is_finished"]) for sight in sights] == [
        (10, False), (50, False), (STEPS, False), (STEPS, True),
    ]  # fmt: skip


def test_looking_once_does_not_wait(tmp_path, capsys):
    going = Going(tmp_path / "run")
    assert main(["watch", str(tmp_path / "run"), "--once"]) == 0
    going.begin()
    going.go(10)
    assert main(["watch", str(tmp_path / "run"), "--once"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "step 0  time left not known yet"
    assert second.startswith("step 10/100  sparsity 0.05  cut 0.01  loss 0.1")


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
