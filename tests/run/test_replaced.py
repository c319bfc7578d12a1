"""A run that another one replaces is there again, whole, unless the other came to something that can be kept."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("datasets")

import mgpp
from mgpp.run import RunInterrupted, RunStopped, run
from mgpp.run.folder import RunFolder
from mgpp.run.replaced import FOLDERS
from tests.run.test_resume import Killed, stop_with
from tests.tiny import RAMP, At


def everything(folder: str) -> dict[str, bytes]:
    """All files of a folder, however deep."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@pytest.fixture
def finished(config):
    """With a file beside it that no run wrote."""
    run(config)
    (Path(config.output) / "notes.txt").write_text("mine")
    return config


@pytest.fixture
def other(finished):
    return replace(finished, method=mgpp.GMP(**RAMP), seed=4)


def test_one_that_is_interrupted_before_its_first_checkpoint_leaves_the_old_one(finished, other):
    before = everything(finished.output)
    with pytest.raises(RunInterrupted, match=r"no checkpoint had been written yet .* is as it was before"):
        run(other, overwrite=True, callbacks=[At(2, stop_with(KeyboardInterrupt))])
    assert everything(finished.output) == before


def test_one_that_fails_before_its_first_checkpoint_leaves_the_old_one(finished, other):
    before = everything(finished.output)
    with pytest.raises(RunStopped, match="is as it was before"):
        run(replace(other, learning_rate=1e30), overwrite=True)
    assert everything(finished.output) == before


def test_what_an_unfinished_one_had_come_to_is_left_too(config):
    with pytest.raises(RunInterrupted):
        run(config, callbacks=[At(5, stop_with(KeyboardInterrupt))])
    before = everything(config.output)
    with pytest.raises(RunInterrupted, match="is as it was before"):
        run(replace(config, seed=4), overwrite=True, callbacks=[At(2, stop_with(KeyboardInterrupt))])
    assert everything(config.output) == before
    run(config, resume=True)


def test_once_the_new_one_has_a_checkpoint_the_old_one_is_gone(finished, other):
    with pytest.raises(RunInterrupted, match="the last good checkpoint is"):
        run(other, overwrite=True, callbacks=[At(4, stop_with(KeyboardInterrupt))])
    assert sorted(os.listdir(finished.output)) == ["checkpoints", "notes.txt", "run.json"]
    run(other, resume=True)
    assert not any((Path(other.output) / name).exists() for name in FOLDERS)


def test_one_that_was_killed_can_be_resumed_or_begun_anew_and_the_old_one_waits(finished, other):
    before = everything(finished.output)
    with pytest.raises(Killed):
        run(other, overwrite=True, callbacks=[At(2, stop_with(Killed))])
    with pytest.raises(ValueError, match="holds an unfinished run"):
        run(other)
    with pytest.raises(RunInterrupted, match="is as it was before"):
        run(replace(other, seed=5), overwrite=True, callbacks=[At(2, stop_with(KeyboardInterrupt))])
    assert everything(finished.output) == before
    with pytest.raises(Killed):
        run(other, overwrite=True, callbacks=[At(2, stop_with(Killed))])
    run(other, resume=True)
    assert not any((Path(other.output) / name).exists() for name in FOLDERS)
    assert (Path(other.output) / "notes.txt").read_text() == "mine"


class CutShort(Exception):
    """The process has died at this call."""


@pytest.mark.parametrize("at", range(12))
def test_one_that_dies_while_files_are_moved_leaves_them_for_the_next_to_move_back(at, finished, other, monkeypatch):
    before = everything(finished.output)
    move, calls = os.replace, []

    def cut(source, target):
        calls.append(source)
        if len(calls) > at:
            raise CutShort
        move(source, target)

    folder = RunFolder(other.output)
    monkeypatch.setattr(os, "replace", cut)
    with pytest.raises(CutShort), folder.taken(other, resume=False, overwrite=True):
        raise CutShort
    monkeypatch.setattr(os, "replace", move)
    with pytest.raises(ValueError, match=r"holds a(n unfinished| finished) run"):
        RunFolder(other.output).check(other, resume=False, overwrite=False)
    if (Path(other.output) / "result.json").exists():
        assert everything(finished.output) == before
    with pytest.raises(RunInterrupted, match="is as it was before"):
        run(other, overwrite=True, callbacks=[At(2, stop_with(KeyboardInterrupt))])
    assert everything(finished.output) == before


@pytest.mark.parametrize("what", ["model", "teacher"])
@pytest.mark.parametrize("inside", [".", "checkpoints/checkpoint-10"])
def test_the_model_that_a_run_reads_is_not_written_over(what, inside, config, tmp_path):
    run(config, keep_checkpoints=True)
    before = everything(config.output)
    again = replace(config, **{what: str(Path(config.output) / inside)})
    with pytest.raises(ValueError, match=f"the {what}, lies in the output's folder .*: choose another folder"):
        run(again, overwrite=True)
    assert everything(config.output) == before
    shutil.copytree(config.output, tmp_path / "out2")  # a name that only begins alike
    run(replace(again, **{what: str(tmp_path / "out2")}, max_steps=2, method=None), overwrite=True)
