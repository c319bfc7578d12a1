"""SIGTERM ends a command as Ctrl-C does, and only where nobody else has a use for it."""

import os
import signal
import threading
import time

import pytest

from mgpp.cli.signals import sigterm_interrupts


def test_the_first_is_an_interrupt_and_a_second_ends_the_process():
    with sigterm_interrupts():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_whoever_listens_already_goes_on_doing_so():
    heard = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with sigterm_interrupts():
            os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)
        assert len(heard) == 2
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_another_thread_changes_nothing():
    inside = []

    def enter() -> None:
        with sigterm_interrupts():
            inside.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert inside == [signal.SIG_DFL]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_just_ends():
    with sigterm_interrupts():
        child = os.fork()
        if child == 0:
            try:
                time.sleep(30)
            finally:
                os._exit(1)
        time.sleep(0.2)
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGTERM
