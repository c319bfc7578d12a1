"""A run is followed while its records grow, through a resumption, to its end."""

import json
import os
from pathlib import Path

import pytest

from mgpp import records
from mgpp.report.live import Watcher
from tests.report.runs import MGPP, STEPS


class Going:
    """A run that goes as far as it is told, at two seconds a step by its clock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 1000.0
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "run.json").write_text("{}")
        self.path = folder / "checkpoints" / "records.jsonl"

    def clock(self) -> float:
        return self.now

    def begin(self) -> None:
        start = {"event": "start", "step": 0, "method": MGPP, "schedule": {"last": STEPS}, "weights": {}}
        records.append(self.path, start)

    def go(self, step: int) -> None:
        self.now = 1000.0 + 2 * step
        told = {"sparsity": step / 200, "cut": 0.01, "half_width": 7e-5, "zeros": {}, "look": {"came_back": 0.1}}
        records.append(self.path, {"event": "prune", "step": step, **told})
        records.append(self.path, {"event": "log", "step": step, "loss": 1 / step})

    def finish(self) -> None:
        os.replace(self.path, self.folder / "records.jsonl")
        (self.folder / "result.json").write_text("{}")


@pytest.fixture
def going(tmp_path) -> Going:
    return Going(tmp_path / "run")


def test_each_look_tells_what_is_new(going):
    watcher = Watcher(going.folder, clock=going.clock)
    assert (watcher.look().step, watcher.look().last) == (0, None)  # it reads its data still
    going.begin()
    going.go(10)
    sight = watcher.look()
    assert (sight.step, sight.last, sight.is_finished) == (10, STEPS, False)
    assert (sight.numbers["sparsity"], sight.numbers["cut"], sight.numbers["came_back"]) == (0.05, 0.01, 0.1)
    going.go(20)
    assert watcher.look().losses == [1 / 10, 1 / 20]


def test_the_time_left_follows_the_speed_that_was_seen(going):
    watcher = Watcher(going.folder, clock=going.clock)
    going.begin()
    going.go(10)
    watcher.look()
    going.go(30)
    assert watcher.look().seconds_left == pytest.approx(2 * (STEPS - 30))


def test_who_comes_late_is_told_the_time_left_at_once(going):
    going.begin()
    going.go(40)
    checkpoint = going.folder / "checkpoints" / "checkpoint-20"
    checkpoint.mkdir()
    (checkpoint / "whole.json").write_text(json.dumps({"step": 20, "seconds": 60.0}))
    assert Watcher(going.folder, clock=going.clock).look().seconds_left == pytest.approx(3 * (STEPS - 40))
    (checkpoint / "whole.json").unlink()
    os.utime(going.folder / "run.json", (5000, 5000))
    os.utime(going.path, (5040, 5040))
    assert Watcher(going.folder, clock=going.clock).look().seconds_left == pytest.approx(1 * (STEPS - 40))


def test_a_line_that_is_being_written_is_left_for_the_next_look(going):
    watcher = Watcher(going.folder, clock=going.clock)
    going.begin()
    with going.path.open("a") as file:
        file.write('{"event": "log", "step": 5, "loss": 0.5')
    assert watcher.look().step == 0
    with going.path.open("a") as file:
        file.write("}\n")
    assert watcher.look().losses == [0.5]


def test_a_resumed_run_is_read_anew(going):
    watcher = Watcher(going.folder, clock=going.clock)
    going.begin()
    for step in (10, 20, 30):
        going.go(step)
    assert watcher.look().step == 30
    records.rewind(going.path, 10)
    going.go(12)
    sight = watcher.look()
    assert (sight.step, sight.losses) == (12, [1 / 10, 1 / 12])
    assert sight.seconds_left is None or sight.seconds_left > 0


def test_the_end_is_noticed(going):
    watcher = Watcher(going.folder, clock=going.clock)
    going.begin()
    going.go(STEPS)
    assert not watcher.look().is_finished
    going.finish()
    sight = watcher.look()
    assert (sight.is_finished, sight.step, sight.seconds_left) == (True, STEPS, None)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no run in"):
        Watcher(tmp_path)
