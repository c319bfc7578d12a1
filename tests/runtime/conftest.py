"""A machine without a compiler skips the compiled kernel's tests, and says so; all others run by torch's CSR."""

import pytest
import torch

from mgpp import compiler
from mgpp.runtime import NoKernel, build, paths


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def compiled():
    """The kernel of this machine."""
    return built("native")


@pytest.fixture
def fresh():
    """Nothing is known of this machine's paths, before and after."""
    _forget()
    yield
    _forget()


def built(march: str) -> build.Kernel:
    try:
        return build.build(march)
    except NoKernel as reason:
        pytest.skip(f"the compiled kernel cannot be built here: {reason}")


def _forget() -> None:
    for cached in (build.kernel, compiler._cache, paths._found):
        cached.cache_clear()
