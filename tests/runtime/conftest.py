"""A machine without a compiler skips the compiled kernel's tests, and says so; all others run by torch's CSR."""

import platform
from pathlib import Path

import pytest
import torch

from mgpp import compiler
from mgpp.runtime import attention, build, paths
from tests.compilers import built

# -march, and the flag in /proc/cpuinfo without which its instructions would end the process.
TARGETS = {"native": "", "x86-64-v4": "avx512vl", "x86-64-v3": "avx2", "x86-64": ""}


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def compiled():
    """The kernel of this machine."""
    return built(build.build, "native")


@pytest.fixture(params=TARGETS)
def kernel(request):
    """The kernel for every instruction set that this machine can run."""
    if request.param != "native" and platform.machine() != "x86_64":
        pytest.skip(f"{request.param} is for x86_64, this is {platform.machine()}")
    if TARGETS[request.param] not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip(f"this processor has no {TARGETS[request.param]}")
    return built(build.build, request.param)


@pytest.fixture
def fresh():
    """Nothing is known of this machine's paths, before and after."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    for cached in (build.kernel, compiler._cache, paths._found, attention._loaded, attention._measured):
        cached.cache_clear()
