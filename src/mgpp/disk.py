"""Files that appear whole or not at all, and folders that one process has to itself."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # no such lock on this system
    fcntl = None  # type: ignore[assignment]

LOCK_FILE = ".lock"

_held: set[int] = set()


def write_whole(path: Path, text: str) -> None:
    """A reader finds the old text or the new one, never a part; after a power cut, too."""
    draft = path.with_name(f"{path.name}.draft")
    try:
        draft.write_text(text, encoding="utf-8")
        on_disk(draft)
        os.replace(draft, path)
        on_disk(path.parent)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def on_disk(path: Path) -> None:
    """What was written to this file, or which files are in this folder, outlives a power cut."""
    if path.is_dir() and os.name != "posix":  # where a folder cannot be opened
        return
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def alone(folder: Path, what: str) -> Iterator[None]:
    """Have `folder`, which is made where it is not there, to oneself: two at work in it would write over each other.

    `what` names those who must not meet. The lock dies with its process.
    """
    was_there = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / LOCK_FILE
    handle = _take(lock, what)
    if handle is not None:
        _held.add(handle)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink(missing_ok=True)  # while it is ours
        with suppress(OSError):
            if not was_there:
                folder.rmdir()  # only an empty one goes
        if handle is not None:
            _held.discard(handle)
            os.close(handle)


def file_in_the_way(folder: Path) -> Path | None:
    """What stands where this folder or one around it is, or would be made."""
    found = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    return None if found.is_dir() else found


def require_own(folder: Path, what: str, marks: Sequence[str], *, beside: Sequence[str] = ()) -> None:
    """Refuse a folder that holds files of others: `what`'s own have plain names, which theirs may have, too.

    One of `marks` lies in each of its own; what is `beside` may lie there before.
    """
    if not folder.is_dir() or any((folder / mark).exists() for mark in marks):
        return
    strangers = sorted(path.name for path in folder.iterdir() if path.name not in (LOCK_FILE, *beside))
    if strangers:
        raise ValueError(f"{folder} holds files that are no {what}'s, {strangers[0]} among them: choose another folder")


def require_free(folder: Path, what: str) -> None:
    """Refuse a folder in which somebody is at work, without touching it."""
    lock = folder / LOCK_FILE
    if lock.exists():
        handle = _take(lock, what)
        if handle is not None:
            os.close(handle)


def is_at_work(folder: Path) -> bool | None:
    """Whether somebody has `folder` to himself; looks, and takes nothing.

    None where a lock lies there that nobody on this machine holds: its process was killed, or runs on another machine,
    and not every file system tells of that.
    """
    try:
        handle = os.open(folder / LOCK_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(handle)


def _take(lock: Path, what: str) -> int | None:
    """None on a file system without locks: there nobody can be refused."""
    if fcntl is None:
        return None
    while True:
        handle = os.open(lock, os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise ValueError(
                f"another {what} is at work in {lock.parent}: wait for it, or choose another folder"
            ) from None
        except OSError:
            os.close(handle)
            return None
        if _is_still(lock, handle):
            return handle
        os.close(handle)  # of one who was just leaving, and has removed it


def _is_still(lock: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(lock), os.fstat(handle))
    except FileNotFoundError:
        return False


def _let_go() -> None:
    for handle in _held:
        os.close(handle)
    _held.clear()


# A data loader's forked processes outlive their killed parent by seconds. With the lock in their hands, too, the run
# could not be resumed until then.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
