"""The run that another one replaces: set aside in the same folder, until the new one has something to keep.

It is moved name by name, run.json last and back again last. So whoever finds `.replaced` knows how far it had come:
without a run.json in it, or with none beside it, moving was cut short, and what is aside goes back.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

RUN_FILE = "run.json"
FOLDERS = (".replaced", ".removed")


class Replaced:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._aside, self._removed = (folder / name for name in FOLDERS)
        self.is_back = False

    @property
    def is_whole(self) -> bool:
        return (self._aside / RUN_FILE).is_file()

    def set_aside(self, names: Sequence[str]) -> None:
        """These files and folders of the run, those that are there, and its run.json."""
        self._aside.mkdir()
        for name in (*names, RUN_FILE):
            if os.path.lexists(self.folder / name):
                os.replace(self.folder / name, self._aside / name)

    def mend(self) -> None:
        """After a process that was killed meanwhile."""
        shutil.rmtree(self._removed, ignore_errors=True)
        if not (self.is_whole and (self.folder / RUN_FILE).is_file()):
            self.put_back()

    def put_back(self) -> None:
        if not self._aside.is_dir():
            return
        (self.folder / f"{RUN_FILE}.draft").unlink(missing_ok=True)  # of the new run, which had not begun
        for path in sorted(self._aside.iterdir(), key=lambda path: path.name == RUN_FILE):
            os.replace(path, self.folder / path.name)
        self._aside.rmdir()
        self.is_back = True

    def let_go(self) -> None:
        """The new run has a checkpoint, or is finished."""
        if self._aside.is_dir():
            shutil.rmtree(self._removed, ignore_errors=True)
            os.replace(self._aside, self._removed)  # at once: half of it would be taken for one that must go back
            shutil.rmtree(self._removed, ignore_errors=True)
