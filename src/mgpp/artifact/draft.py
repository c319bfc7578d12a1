"""Files that appear in a folder all at once, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mgpp.disk import on_disk


@contextmanager
def drafted(folder: Path, *, last: str) -> Iterator[Path]:
    """A folder to write into. At the end its files move to `folder`, those whose names start with `last` after all
    others; if anything fails before, a full disk included, `folder` is as it was."""
    was_there = folder.exists()
    if was_there and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give a folder")
    folder.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder))
    try:
        yield draft
        files = sorted((path for path in draft.rglob("*") if path.is_file()), key=lambda path: path.name)
        for path in files:
            on_disk(path)
        for path in sorted(files, key=lambda path: path.name.startswith(last)):
            place = folder / path.relative_to(draft)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, place)
        with suppress(OSError):  # all is in its place by now
            on_disk(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        if not was_there and not any(folder.iterdir()):
            folder.rmdir()
