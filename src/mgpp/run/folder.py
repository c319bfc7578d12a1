"""A run's folder: what is in it when, so that nothing half-written ever looks finished.

run.json            from the start: the config, and the metrics of the model as loaded
checkpoints/        while it runs: checkpoint-N/ and records.jsonl; gone at the end
.draft/             while the last files are written; they then move up, result.json last
result.json         only in a finished run
tensorboard/        where the run is tracked with it
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from mgpp.run.config import RunConfig, differences
from mgpp.trainer import RECORDS_FILE

RUN_FILE = "run.json"
RESULT_FILE = "result.json"
TENSORBOARD_FOLDER = "tensorboard"
# In every checkpoint, written after all the rest and in one move: a checkpoint without it was not finished.
WHOLE_FILE = "whole.json"


class RunFolder:
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self.checkpoints = self.path / "checkpoints"
        self._draft = self.path / ".draft"
        self._is_new = False

    # Before the run

    def check(self, config: RunConfig, *, resume: bool, overwrite: bool) -> None:
        """Refuse a folder that this run may not write to; changes nothing."""
        if resume and overwrite:
            raise ValueError("resume and overwrite contradict each other: give one of them")
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file: give a folder for the output")
        if resume:
            self._check_same_run(config)
        elif self._holds_run() and not overwrite:
            state = "a finished run" if (self.path / RESULT_FILE).exists() else "an unfinished run"
            cure = "overwrite it (--overwrite)" if (self.path / RESULT_FILE).exists() else "go on with it (--resume)"
            raise ValueError(f"{self.path} holds {state}: {cure}, or choose another folder")
        elif not self._holds_run() and self._strangers():
            stranger = self._strangers()[0].name
            raise ValueError(f"{self.path} holds files that are no run's, {stranger} among them: choose another folder")

    def _check_same_run(self, config: RunConfig) -> None:
        if not self._holds_run():
            raise ValueError(f"there is no run in {self.path} to resume: start one without --resume")
        if (self.path / RESULT_FILE).exists():
            raise ValueError(f"the run in {self.path} is finished, see {self.path / RESULT_FILE}: nothing to resume")
        different = differences(self.read()["config"], json.loads(json.dumps(config.to_dict())))
        if different:
            raise ValueError(
                f"the run in {self.path} is another one ({'; '.join(different)}): resume with its settings, or choose "
                "another folder"
            )

    def _holds_run(self) -> bool:
        return (self.path / RUN_FILE).exists()

    def _strangers(self) -> list[Path]:
        return sorted(self.path.iterdir()) if self.path.is_dir() else []

    # While it runs

    def open(self, config: RunConfig, *, resume: bool) -> None:
        """Make the folder this run's own; what an earlier run left there goes, unless it is resumed."""
        self._is_new = not self.path.exists()
        if resume:
            self.remove_unfinished()
            return
        try:
            if self._holds_run():
                self._remove_run()
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            self.write({"config": config.to_dict()})
        except OSError as error:
            if self.path.is_dir():
                self.abandon()
            raise OSError(f"cannot write to {self.path} ({error.strerror}): choose another folder") from error

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
        whole = [folder for folder in self._checkpoints() if (folder / WHOLE_FILE).is_file()]
        return max(whole, key=step_of, default=None)

    def remove_unfinished(self) -> None:
        """Give back the disk space of what was being written when a run stopped."""
        shutil.rmtree(self._draft, ignore_errors=True)
        for folder in self._checkpoints():
            if not (folder / WHOLE_FILE).is_file():
                shutil.rmtree(folder, ignore_errors=True)

    def abandon(self) -> None:
        """After a failure: without a checkpoint there is nothing to keep, and the folder is as it was before."""
        self.remove_unfinished()
        if self.newest_checkpoint() is None:
            self._remove_run()
            if self._is_new:
                shutil.rmtree(self.path, ignore_errors=True)

    def _checkpoints(self) -> list[Path]:
        return list(self.checkpoints.glob(f"{PREFIX_CHECKPOINT_DIR}-*"))

    def _remove_run(self) -> None:
        """Exactly what a run wrote; files that somebody put beside them stay."""
        for name in (*_listed_in(self.path / RESULT_FILE), RESULT_FILE, RUN_FILE):
            if (self.path / name).is_file():
                (self.path / name).unlink()
        for folder in (self.checkpoints, self._draft, self.path / TENSORBOARD_FOLDER):
            shutil.rmtree(folder, ignore_errors=True)

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
            os.replace(file, self.path / file.name)
        os.replace(self._draft / RESULT_FILE, self.path / RESULT_FILE)
        self._draft.rmdir()
        if not keep_checkpoints:
            shutil.rmtree(self.checkpoints)
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
    """The files that a run's result lists, each by its last name: it may say anything, "../x" too.

    A damaged one lists none: what it does not name is replaced by the next run's.
    """
    try:
        files = json.loads(result.read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []
    return sorted({Path(name).name for name in files}) if isinstance(files, dict) else []


def write_json(path: Path, value: dict[str, Any]) -> None:
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(draft, path)
