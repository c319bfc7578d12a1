"""One trial as a job of the pool: a run in a folder of its own, known to the study by its number."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mgpp.compare.pool import start_process
from mgpp.run import RunConfig
from mgpp.run.folder import RESULT_FILE, RUN_FILE
from mgpp.sweep.study import STORAGE_VARIABLE
from mgpp.trainer import RECORDS_FILE

GIVEN_UP_FILE = "given_up.json"
_KEPT = {RESULT_FILE, RUN_FILE, RECORDS_FILE}


@dataclass(frozen=True, kw_only=True)
class TrialJob:
    """`study` is what its process needs to report to the study."""

    number: int
    id: int
    params: Mapping[str, Any]
    config: RunConfig
    study: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"trial-{self.number:04d}"

    @property
    def folder(self) -> Path:
        return Path(self.config.output).expanduser()

    @property
    def result(self) -> dict[str, Any] | None:
        return _read(self.folder / RESULT_FILE)

    @property
    def given_up(self) -> dict[str, Any] | None:
        """Where the pruner stopped it: the step, and why."""
        return _read(self.folder / GIVEN_UP_FILE)

    @property
    def is_begun(self) -> bool:
        return (self.folder / RUN_FILE).is_file()

    @property
    def is_finished(self) -> bool:
        return (self.folder / RESULT_FILE).is_file() or (self.folder / GIVEN_UP_FILE).is_file()

    def tidy(self, *, keep_model: bool) -> None:
        """A sweep's models are many and of no use: the best settings are run again, on all of the rows."""
        if keep_model and self.result is not None:
            return
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name not in {*_KEPT, GIVEN_UP_FILE}:
                path.unlink(missing_ok=True)


def launch(job: TrialJob, environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    told = {"config": job.config.to_dict(), "resume": job.is_begun, "trial": job.id, **job.study}
    # Not among the words of a command, which every user of the machine can list: a URL may hold a password.
    environment = {**environment, STORAGE_VARIABLE: told.pop("storage")}
    return start_process("mgpp.sweep.worker", told, environment, log)


def _read(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
