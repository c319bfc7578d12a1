"""The one place where an exception becomes one line on stderr and an exit code."""

import re
import sys
from typing import Any

from mgpp.run.reasons import RunInterrupted, RunStopped, is_full_disk, is_out_of_memory, reason_of

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
LONGEST = 600  # characters of a line: a value may be a whole file
_FLOAT = "float_parsing"  # pydantic's word for what is no number
_IN_THE_WAY = (FileExistsError, NotADirectoryError)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def exit_code_of(error: BaseException) -> int:
    """Print what went wrong; returns the exit code. Anything that is not an error of the user's is named as such."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED
    code, line = _told(error)
    print(f"mgpp: {line}", file=sys.stderr)
    return code


def _told(error: BaseException) -> tuple[int, str]:
    # typer brings its own copy of click, or takes the installed one: its errors are known by their shape.
    if hasattr(error, "format_message"):
        return BAD_INPUT, f"{_one_line(error.format_message() + _given(error))} (mgpp --help, or mgpp COMMAND --help)"
    if isinstance(error, RunInterrupted):
        return INTERRUPTED, _one_line(str(error))
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return INTERRUPTED, "interrupted: give the same command once more"
    if isinstance(error, RunStopped | FloatingPointError):
        return FAILED, _one_line(str(error))
    if is_out_of_memory(error):
        return FAILED, reason_of(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        cure = ": a file lies where a folder is needed, choose another place" if isinstance(error, _IN_THE_WAY) else ""
        return BAD_INPUT, _one_line(f"{error.filename}: {error.strerror}{cure}")
    if isinstance(error, ValueError | OSError | ImportError):
        return BAD_INPUT, _one_line(str(error)) or type(error).__name__
    if is_full_disk(error):
        return FAILED, reason_of(error)
    return FAILED, f"{type(error).__name__}: {_one_line(str(error))} (this is not your fault: --debug shows where)"


def _given(error: BaseException) -> str:
    """What was no number, where pydantic reads numbers for typer and its words leave it out."""
    wrong: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    return "".join(f": {each['input']!r}{_meant(each['input']) if each['type'] == _FLOAT else ''}" for each in wrong)


def _meant(value: object) -> str:
    """By 90% and 0,9."""
    text = str(value).strip()
    try:
        number = float(text.removesuffix("%").replace(",", ".")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return ""
    return f", did you mean {number:g}?"


def _one_line(text: str) -> str:
    """What cannot be shown is not: an escape sequence in a file would otherwise speak to the terminal.

    Of a long line the beginning is kept, which says what is wrong, and the end, which says what to do.
    """
    plain = "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(_COLOUR.sub("", text).split()))
    if len(plain) <= LONGEST:
        return plain
    return f"{plain[: LONGEST // 2]} … {plain[-LONGEST // 2 :]}"
