"""A run's folder: what is in it when, so that nothing half-written ever looks finished.

.lock               while a process is at work in it
run.json            from the start: the config, the columns that the model reads, and its metrics as loaded
checkpoints/        while it runs: checkpoint-N/ and records.jsonl; gone at the end
.draft/             while the last files are written; they then move up, result.json last
result.json         only in a finished run
.replaced/          the run that this one replaces, until this one has a checkpoint (replaced.py)
tensorboard/        where the run is tracked with it
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from mgpp.disk import LOCK_FILE, alone, file_in_the_way, on_disk, require_free, write_whole
from mgpp.run.config import RunConfig, differences
from mgpp.run.replaced import FOLDERS, RUN_FILE, Replaced
from mgpp.trainer import RECORDS_FILE

RESULT_FILE = "result.json"
TENSORBOARD_FOLDER = "tensorboard"
# In every checkpoint, written after all the rest and in one move: a checkpoint without it was not finished.
WHOLE_FILE = "whole.json"
# What may lie in a folder that a run was about to take when it was killed.
_FIRST_FILES = {LOCK_FILE, f"{RUN_FILE}.draft", *FOLDERS}


class RunFolder:
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self.checkpoints = self.path / "checkpoints"
        self._draft = self.path / ".draft"
        self._replaced = Replaced(self.path)
        self._is_new = False

    # Before the run

    def require_free(self) -> None:
        """Refuse a folder in which another run is at work; changes nothing."""
        require_free(self.path, "run")

    @contextmanager
    def taken(self, config: RunConfig, *, resume: bool, overwrite: bool) -> Iterator[list[str]]:
        """The folder is this run's own; what an earlier run left there goes, unless it is resumed.

        Gives the names of checkpoints that were being written when the resumed run stopped. They are gone.
        """
        self._is_new = not self.path.exists()
        with ExitStack() as stack:
            try:
                stack.enter_context(alone(self.path, "run"))
            except OSError as error:
                raise self._cannot_write(error) from error
            self.check(config, resume=resume, overwrite=overwrite)  # another may have been here since it was asked
            if resume:
                yield self.remove_unfinished()
            else:
                self._begin(config)
                yield []

    def _cannot_write(self, error: OSError) -> OSError:
        return OSError(f"cannot write to {self.path} ({error.strerror}): choose another folder")

    def check(self, config: RunConfig, *, resume: bool, overwrite: bool) -> None:
        """Refuse a folder that this run may not write to; changes nothing, but for what a dead run was moving."""
        if resume and overwrite:
            raise ValueError("resume and overwrite contradict each other: give one of them")
        file = file_in_the_way(self.path)
        if file is not None:
            raise ValueError(f"{file} is a file: give a folder for the output")
        self._replaced.mend()
        if overwrite:
            self._require_not_read(config)
        if resume:
            self._check_same_run(config)
        elif self._holds_run() and not overwrite:
            state, cure = "an unfinished run", "go on with it (--resume), begin anew (--overwrite)"
            if self.is_finished:
                state, cure = "a finished run", "overwrite it (--overwrite)"
            raise ValueError(f"{self.path} holds {state}: {cure}, or choose another folder")
        elif not self._holds_run() and self._strangers():
            stranger = self._strangers()[0].name
            raise ValueError(f"{self.path} holds files that are no run's, {stranger} among them: choose another folder")

    def _require_not_read(self, config: RunConfig) -> None:
        """A run must not write over the model that it starts from: it would be lost when the run fails."""
        for what, name in (("model", config.model), ("teacher", config.teacher)):
            if name is not None and Path(os.path.expanduser(name)).resolve().is_relative_to(self.path.resolve()):
                raise ValueError(f"{name}, the {what}, lies in the output's folder {self.path}: choose another folder")

    def _check_same_run(self, config: RunConfig) -> None:
        if not self._holds_run():
            raise ValueError(f"there is no run in {self.path} to resume: start one without --resume")
        if self.is_finished:
            shutil.rmtree(self._draft, ignore_errors=True)
            raise ValueError(f"the run in {self.path} is finished, see {self.path / RESULT_FILE}: nothing to resume")
        different = differences(self.read()["config"], json.loads(json.dumps(config.to_dict())))
        if different:
            raise ValueError(
                f"the run in {self.path} is another one ({'; '.join(different)}): resume with its settings, or choose "
                "another folder"
            )

    @property
    def is_finished(self) -> bool:
        return (self.path / RESULT_FILE).exists()

    def _holds_run(self) -> bool:
        return (self.path / RUN_FILE).exists()

    def _strangers(self) -> list[Path]:
        found = sorted(self.path.iterdir()) if self.path.is_dir() else []
        return [path for path in found if path.name not in _FIRST_FILES]

    # While it runs

    def _begin(self, config: RunConfig) -> None:
        try:
            if self._holds_run():
                self._set_aside()
            self.write({"config": config.to_dict()})  # first: a folder without it is nobody's
            self.checkpoints.mkdir(exist_ok=True)
        except OSError as error:
            self.abandon()
            raise self._cannot_write(error) from error

    def read(self) -> dict[str, Any]:
        path = self.path / RUN_FILE
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            _check_state(state)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is damaged ({error}): run anew with --overwrite") from None
        return state

    def write(self, state: dict[str, Any]) -> None:
        write_json(self.path / RUN_FILE, state)

    def newest_checkpoint(self) -> Path | None:
        """The newest one that was written to its end."""
        return max(whole_checkpoints(self.checkpoints), key=step_of, default=None)

    def remove_unfinished(self) -> list[str]:
        """Give back the disk space of what was being written, or removed, when a run stopped."""
        shutil.rmtree(self._draft, ignore_errors=True)
        whole = whole_checkpoints(self.checkpoints)
        cut_short = [folder for folder in _checkpoints(self.checkpoints) if folder not in whole]
        for folder in cut_short:
            shutil.rmtree(folder, ignore_errors=True)
        newest = max(map(step_of, whole), default=0)
        return sorted(folder.name for folder in cut_short if step_of(folder) > newest)

    def _set_aside(self) -> None:
        """What is worth keeping of the run that is here: one without a checkpoint is not."""
        if not self.is_finished and self.newest_checkpoint() is None:
            self._remove_run()
            return
        self._replaced.set_aside([RESULT_FILE, *self._files(), self.checkpoints.name, TENSORBOARD_FOLDER])
        shutil.rmtree(self._draft, ignore_errors=True)

    def _files(self) -> list[str]:
        """Of a run that is finished, or was about to be."""
        listed = [name for place in (self.path, self._draft) for name in _listed_in(place / RESULT_FILE)]
        return [name for name in listed if (self.path / name).is_file()]

    @property
    def is_back(self) -> bool:
        """The run that was here before this one is here again."""
        return self._replaced.is_back

    def abandon(self) -> None:
        """After a failure: without a checkpoint there is nothing to keep, and the folder is as it was before."""
        with suppress(OSError):  # then the next run in this folder does it
            self._replaced.mend()
        if self.is_back:  # this one had not even begun
            return
        self.remove_unfinished()
        if self.is_finished:
            return
        if self.newest_checkpoint() is None:
            self._remove_run()
            with suppress(OSError):
                self._replaced.put_back()
            if self._is_new:
                shutil.rmtree(self.path, ignore_errors=True)

    def _remove_run(self) -> None:
        """Exactly what a run without a checkpoint wrote; files that somebody put beside them stay. run.json goes last:
        should this be cut short, the folder is still known for a run's."""
        for folder in (self.checkpoints, self.path / TENSORBOARD_FOLDER, self._draft):
            shutil.rmtree(folder, ignore_errors=True)
        (self.path / RUN_FILE).unlink(missing_ok=True)

    # At its end

    def finish(
        self, save: Callable[[Path], None], result: dict[str, Any], *, keep_checkpoints: bool = False
    ) -> dict[str, Any]:
        """`save` writes the model's files into a draft; all of them move into place, then the result."""
        shutil.rmtree(self._draft, ignore_errors=True)
        self._draft.mkdir()
        save(self._draft)
        shutil.copyfile(self.checkpoints / RECORDS_FILE, self._draft / RECORDS_FILE)
        files = sorted(file for file in self._draft.iterdir())
        result = {**result, "files": {file.name: file.stat().st_size for file in files}}
        write_json(self._draft / RESULT_FILE, result)
        for file in files:
            on_disk(file)
        for file in files:
            os.replace(file, self.path / file.name)
        on_disk(self.path)
        os.replace(self._draft / RESULT_FILE, self.path / RESULT_FILE)
        with suppress(OSError):  # it is finished for every reader, whatever the disk says now
            on_disk(self.path)
            self._replaced.let_go()
            if not keep_checkpoints:
                os.replace(self.checkpoints, self._draft / self.checkpoints.name)  # at once, for removing takes time
        shutil.rmtree(self._draft, ignore_errors=True)
        return result


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _check_state(state: Any) -> None:
    if not isinstance(state, dict) or not isinstance(state.get("config"), dict):
        raise ValueError("it holds no config")
    before = state.get("before", {})
    if not isinstance(before, dict) or not all(isinstance(value, int | float) for value in before.values()):
        raise ValueError("its metrics before training are none")


def _listed_in(result: Path) -> list[str]:
    """The files beside it that a run's result lists: by their last name, for it may say anything, "../x" too.

    A damaged one lists none: what it does not name is replaced by the next run's.
    """
    try:
        files = json.loads(result.read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []
    return sorted({Path(name).name for name in files}) if isinstance(files, dict) else []


def whole_checkpoints(folder: Path) -> list[Path]:
    return [path for path in _checkpoints(folder) if (path / WHOLE_FILE).is_file()]


def _checkpoints(folder: Path) -> list[Path]:
    return list(folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"))


def mark_whole(checkpoint: Path, told: dict[str, Any]) -> None:
    """What has been written there is whole, and outlives a power cut."""
    for file in checkpoint.iterdir():
        on_disk(file)
    on_disk(checkpoint.parent)
    write_json(checkpoint / WHOLE_FILE, told)


def let_go_of_replaced(run: Path) -> None:
    """Of the run that this one replaces: it has a checkpoint of its own now."""
    Replaced(run).let_go()


def keep_newest(folder: Path, count: int) -> None:
    """Remove all but `count` of the checkpoints that are whole, each one's mark first: half of one is none."""
    for checkpoint in sorted(whole_checkpoints(folder), key=step_of)[:-count]:
        (checkpoint / WHOLE_FILE).unlink()
        shutil.rmtree(checkpoint, ignore_errors=True)


def write_json(path: Path, value: dict[str, Any]) -> None:
    write_whole(path, json.dumps(value, indent=2, allow_nan=False) + "\n")
