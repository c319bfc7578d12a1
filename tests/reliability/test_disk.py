"""Disks that are full or read-only, and two runs in one folder: one line that says so, and nothing is lost."""

import errno
import fcntl
import os
import shutil
import threading
from pathlib import Path

import pytest

pytest.importorskip("datasets")

from mgpp.cli import main
from mgpp.disk import LOCK_FILE, alone, require_free, write_whole
from tests.reliability.moments import count, go_through, is_one_line
from tests.reliability.runs import command, go_on, outcome

FULL_AT = {
    0.0: "refused at the start",
    0.2: "stopped, nothing is left",
    0.6: "stopped, a checkpoint stands",
    0.97: "stopped, a checkpoint stands",
}


def test_a_disk_that_fills_up_stops_the_run_in_one_line_and_it_goes_on_when_there_is_space(
    forked, given, whole, tmp_path
):
    calls = count(forked, command(given, tmp_path / "counted"), tmp_path / "counted", "full")
    folder = tmp_path / "out"
    for share, expected in FULL_AT.items():
        how, ended = go_through(forked, command(given, folder), folder, whole, at=1 + int(share * calls), fault="full")
        assert how == expected, ended.err


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_run(forked, given, tmp_path):
    folder = tmp_path / "out"
    ended = forked(command(given, folder), folder, at=1, error=errno.EROFS)
    assert ended.code == 2
    assert is_one_line(ended)
    assert f"cannot write to {folder} (Read-only file system): choose another folder" in ended.err
    assert not folder.exists()


def test_a_disk_that_turns_read_only_stops_the_run_in_one_line(forked, given, whole, tmp_path):
    calls = count(forked, command(given, tmp_path / "counted"), tmp_path / "counted", "kill")
    folder = tmp_path / "out"
    words = command(given, folder)
    ended = forked(words, folder, at=calls // 2, error=errno.EROFS)
    assert ended.code in (1, 2)
    assert is_one_line(ended)
    assert "Read-only file system" in ended.err
    assert forked(go_on(words, folder), folder).code == 0
    assert outcome(folder) == outcome(whole)


@pytest.mark.parametrize("share", [0.0, 0.4, 0.8])
def test_an_export_that_meets_a_full_disk_leaves_nothing(share, forked, whole, tmp_path):
    folder = tmp_path / "sparse"
    words = ["export", whole, "--output", folder]
    calls = forked(words, folder, error=errno.ENOSPC).calls
    shutil.rmtree(folder)
    ended = forked(words, folder, at=1 + int(share * calls), error=errno.ENOSPC)
    assert ended.code in (1, 2)
    assert is_one_line(ended)
    assert "No space left" in ended.err
    assert not folder.exists()


# Two in one folder


@pytest.mark.parametrize("resume", [[], ["--resume"], ["--overwrite"]])
@pytest.mark.parametrize("what", ["prune", "finetune"])
def test_a_second_run_in_one_folder_is_refused(what, resume, given, tmp_path, capsys):
    folder = tmp_path / "out"
    words = [what, *map(str, given), "--output", str(folder), *resume]
    with alone(folder, "run"):
        (folder / "run.json").write_text("{}")
        assert main([*words, *(["--sparsity", "0.5"] if what == "prune" else [])]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told == [f"mgpp: another run is at work in {folder}: wait for it, or choose another folder"]
    assert [path.name for path in folder.iterdir()] == ["run.json"]


def test_a_killed_run_leaves_its_folder_free(forked, given, tmp_path):
    folder = tmp_path / "out"
    words = command(given, folder)
    assert forked(words, folder, at=100).code == -9
    assert (folder / LOCK_FILE).exists()
    require_free(folder, "run")
    assert forked(go_on(words, folder), folder).code == 0
    assert not (folder / LOCK_FILE).exists()


def test_a_run_killed_before_it_had_written_anything_leaves_a_folder_that_can_be_used(forked, given, tmp_path):
    folder = tmp_path / "out"
    words = command(given, folder)
    for at in (2, 3, 4):  # the lock, and the draft of run.json
        assert forked(words, folder, at=at).code == -9
        assert not (folder / "run.json").exists()
    assert forked(words, folder).code == 0


def test_processes_forked_meanwhile_do_not_hold_the_folder(tmp_path):
    with alone(tmp_path, "run"):
        ready, say = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(say, b"!")
            threading.Event().wait(30)
            os._exit(0)
        assert os.read(ready, 1) == b"!"
        handle = os.open(tmp_path / LOCK_FILE, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # free, though the child lives
    os.close(handle)
    os.kill(child, 9)
    os.waitpid(child, 0)


def test_who_waited_at_a_lock_that_is_then_removed_takes_the_new_one(tmp_path, monkeypatch):
    flock, opened = fcntl.flock, []

    def late(handle: int, how: int) -> None:
        opened.append(handle)
        if len(opened) == 1:  # its owner leaves between our opening and our locking
            (tmp_path / LOCK_FILE).unlink()
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with alone(tmp_path, "run"):
        assert len(opened) == 2
        with pytest.raises(ValueError, match="another run is at work"):
            require_free(tmp_path, "run")


def test_a_folder_made_for_nothing_is_not_left_behind(tmp_path):
    with alone(tmp_path / "new", "run"):
        pass
    assert not (tmp_path / "new").exists()
    with alone(tmp_path, "run"):
        (tmp_path / "kept").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_text_that_cannot_be_written_whole_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "text"
    write_whole(path, "old")

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(Path(tmp_path).iterdir()) == [path]
