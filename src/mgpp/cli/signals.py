"""SIGTERM, which a job's time limit sends, or a script that ends its runs: taken for what Ctrl-C is."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Inside, the first SIGTERM is a KeyboardInterrupt; a second one ends the process at once.

    Where somebody else listens to it, or this is not the main thread, nothing is changed.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    here = os.getpid()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if os.getpid() != here:  # a process that was forked from this one, and whose owner wants it gone
            os._exit(128 + number)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # torch listens to it, and would complain of loading processes that got the same SIGTERM.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
