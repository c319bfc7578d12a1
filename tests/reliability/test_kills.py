"""A run that is killed, at whatever moment, goes on to the same bytes. tests.reliability.kills does more of it."""

import json
import random
import shutil
import signal
from itertools import islice
from pathlib import Path

import pytest

from tests.reliability import runs
from tests.reliability.forked import Forked
from tests.reliability.kills import draw, survive
from tests.reliability.moments import count, go_through
from tests.reliability.runs import command, go_on, is_finished, outcome, start_anew


@pytest.fixture(scope="module")
def calls(forked: Forked, given, tmp_path_factory) -> int:
    """How often an undisturbed run changes the disk."""
    folder = tmp_path_factory.mktemp("counted") / "out"
    return count(forked, command(given, folder), folder, "kill")


def test_a_run_killed_at_random_moments_ends_as_the_undisturbed_one(forked, given, whole, tmp_path):
    folder = tmp_path / "out"

    def session(words: list[str], after: float | None) -> int:
        return forked(words, folder, after=after).code

    words = command(given, folder)
    assert len(list(islice(survive(session, words, folder, whole, draw(seed=0, longest=1.5)), 4))) == 4
    if not is_finished(folder):
        assert session(go_on(words, folder), None) == 0
    assert outcome(folder) == outcome(whole)


def test_a_run_killed_while_it_saves_or_writes_its_model_ends_as_the_undisturbed_one(
    forked, given, whole, calls, tmp_path
):
    chosen = random.Random(1)
    found = set()
    # From the first file to the last: four moments, one in each quarter of the run's changes to the disk.
    for quarter in range(4):
        at = 1 + int((quarter + chosen.random()) * calls / 4)
        folder = tmp_path / str(quarter)
        stage, ended = go_through(forked, command(given, folder), folder, whole, at=at, fault="kill")
        assert ended.code == -signal.SIGKILL
        found.add(stage)
    assert "saving a checkpoint" in found


def killed_in(stage: str, forked: Forked, words: list[str], folder: Path, calls: int) -> None:
    """Leave the folder as a run leaves it that is killed in that stage."""
    for at in range(calls // 3, calls, 7):
        assert forked(words, folder, at=at).code == -signal.SIGKILL
        if runs.stage(folder) == stage:
            return
        start_anew(folder)
    raise AssertionError(f"never killed while {stage}")


def test_a_checkpoint_that_was_cut_short_is_removed_with_a_word(forked, given, whole, calls, tmp_path):
    folder = tmp_path / "out"
    words = command(given, folder)
    killed_in("saving a checkpoint", forked, words, folder, calls)
    cut_short = [path for path in (folder / "checkpoints").glob("*-*") if not (path / "whole.json").exists()]
    ended = forked(go_on(words, folder), folder, after=60)
    assert ended.code == 0
    for path in cut_short:
        assert f"{path.name} was not finished when the run stopped: it is removed" in ended.err
    assert outcome(folder) == outcome(whole)


def test_a_run_killed_while_it_removes_an_older_one_leaves_none_of_its_files(forked, given, whole, tmp_path):
    folder = tmp_path / "out"
    words = command(given, folder)
    for at in (6, 9, 12):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        (folder / "model-00001-of-00002.safetensors").write_text("of a larger model")
        result = json.loads((folder / "result.json").read_text())
        result["files"]["model-00001-of-00002.safetensors"] = 17
        (folder / "result.json").write_text(json.dumps(result))
        assert forked([*words, "--overwrite"], folder, at=at).code == -signal.SIGKILL
        assert not is_finished(folder)
        assert forked([*words, "--overwrite"], folder).code == 0
        assert outcome(folder) == outcome(whole)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["--method=mgpp", "--set=hold=true"], "hold"),
        (["--set=end=9"], "end: was 8, now 9"),
        (["--sparsity=0.5"], "sparsity: was 0.75, now 0.5"),
        (["--max-steps=12"], "max_steps: was 10, now 12"),
    ],
)
def test_a_killed_run_is_not_resumed_as_another_one(change, told, forked, given, calls, tmp_path):
    folder = tmp_path / "out"
    words = command(given, folder)
    assert forked(words, folder, at=calls // 2).code == -signal.SIGKILL
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    ended = forked([*words, *change, "--resume"], folder)
    assert ended.code == 2
    assert told in ended.err.splitlines()[-1]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_reader_never_meets_half_a_checkpoint(forked, given, calls, tmp_path):
    """Wherever the run is killed, what is marked as whole has every file, and all of them can be read."""
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors")
    folder = tmp_path / "out"
    for at in (calls // 3, calls // 2, 3 * calls // 4):
        forked(command(given, folder), folder, at=at)
        for mark in folder.glob("checkpoints/*/whole.json"):
            json.loads(mark.read_text())
            files = {path.name for path in mark.parent.iterdir()}
            assert {"model.safetensors", "trainer_state.json", "pruner.safetensors"} <= files
            for name in ("model.safetensors", "pruner.safetensors"):
                with safetensors.safe_open(mark.parent / name, framework="pt") as file:
                    assert list(file.keys())
            if mark.parent.name != "checkpoint-10":  # the last, from which no step is taken
                assert {"optimizer.pt", "scheduler.pt", "rng_state.pth"} <= files
                torch.load(mark.parent / "optimizer.pt", weights_only=True)
        start_anew(folder)
