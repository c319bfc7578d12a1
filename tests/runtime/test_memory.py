"""Memory that is freed stays with the process, once it has been told."""

import ctypes
import subprocess
import sys

import pytest

from mgpp.runtime import keep_memory, memory

# How often the system had to hand out a page, in ten turns of taking and freeing 40 MB.
SCRIPT = """if True:
    import resource, sys, torch
    from mgpp.runtime import keep_memory
    if sys.argv[1] == "kept":
        assert keep_memory()
    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    counts = []
    for _ in range(13):
        torch.ones(10_000_000)
        counts.append(faults())
    print(counts[-1] - counts[2])
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, timeout=120, check=True)
    return int(done.stdout)


def test_kept_memory_is_not_taken_from_the_system_again():
    if not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
        pytest.skip("this C library is not glibc")
    assert 3 * faults("kept") < faults("given back")  # the heap may grow by a block more on its way


def test_a_c_library_that_cannot_be_told_is_no_error(monkeypatch):
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    assert keep_memory() is False
