"""A run is followed while its records grow, through a resumption, to its end."""

import json
import os
import shutil
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


def whole(going: Going, step: int) -> None:
    checkpoint = going.folder / "checkpoints" / f"checkpoint-{step}"
    checkpoint.mkdir()
    (checkpoint / "whole.json").write_text(json.dumps({"step": step, "seconds": 2.0 * step}))


def test_a_run_whose_folder_is_let_go_is_stopped_and_says_how_it_goes_on(going):
    at_work = [True]
    watcher = Watcher(going.folder, clock=going.clock, is_at_work=lambda folder: at_work[0])
    going.begin()
    going.go(10)
    assert not watcher.look().is_stopped
    at_work[0] = False
    assert watcher.look().way_on == (
        "no checkpoint had been written yet: the same command with --resume starts from step 1"
    )
    whole(going, 8)
    sight = watcher.look()
    assert (sight.is_stopped, sight.seconds_left, sight.written) == (True, None, going.path.stat().st_mtime)
    kept = f"the last good checkpoint is {going.folder / 'checkpoints' / 'checkpoint-8'}"
    assert sight.way_on == f"{kept}: the same command with --resume goes on from there"
    whole(going, STEPS)
    assert "the same command with --resume goes on with the scoring" in watcher.look().way_on
    going.finish()
    assert (watcher.look().is_finished, watcher.look().is_stopped) == (True, False)


def test_a_run_that_left_nothing_is_stopped_too(going):
    watcher = Watcher(going.folder, clock=going.clock, is_at_work=lambda folder: False)
    shutil.rmtree(going.folder)
    sight = watcher.look()
    assert (sight.is_stopped, sight.step) == (True, 0)
    assert sight.way_on.endswith("nothing is left of this run: start it again")


def test_the_runs_of_a_comparison_go_on_with_it(tmp_path):
    going = Going(tmp_path / "cells" / "mgpp-0.9-0")
    going.begin()
    sight = Watcher(going.folder, is_at_work=lambda folder: False).look()
    assert "the same mgpp compare starts from step 1" in sight.way_on


def test_where_nobody_can_tell_it_is_stopped_after_a_silence_ten_times_its_longest(going):
    watcher = Watcher(going.folder, clock=going.clock, is_at_work=lambda folder: None)
    going.begin()
    for step in (10, 20, 30):  # two seconds a step: a record every twenty
        going.go(step)
        watcher.look()
    os.utime(going.path, (going.now, going.now))
    going.now += 190
    assert not watcher.look().is_stopped
    going.now += 20
    assert watcher.look().is_stopped


@pytest.mark.parametrize("step", [0, STEPS], ids=["before the first step", "while the model is scored"])
def test_a_silence_without_a_usual_length_lasts_ten_minutes(going, step):
    watcher = Watcher(going.folder, clock=going.clock, is_at_work=lambda folder: None)
    going.begin()
    if step:
        going.go(step)
    os.utime(going.path, (going.now, going.now))
    going.now += 590
    assert not watcher.look().is_stopped
    going.now += 20
    assert watcher.look().is_stopped


def test_a_run_at_work_is_never_stopped_however_long_it_is_quiet(going):
    watcher = Watcher(going.folder, clock=going.clock, is_at_work=lambda folder: True)
    going.begin()
    going.go(10)
    os.utime(going.path, (going.now, going.now))
    going.now += 1e6
    sight = watcher.look()
    assert (sight.is_quiet, sight.is_stopped, sight.written) == (True, False, going.now - 1e6)


def test_a_run_of_a_trainer_of_ones_own_has_no_lock_and_ends_with_its_last_step(going):
    (going.folder / "run.json").unlink()
    going.begin()
    watcher = Watcher(going.folder, clock=going.clock, is_at_work=lambda folder: False)
    for step in (10, STEPS):
        going.go(step)
        sight = watcher.look()
        assert (sight.is_stopped, sight.is_finished) == (False, step == STEPS)
