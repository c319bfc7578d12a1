"""Kernels are built into a folder of the test run's own, and a machine without a compiler skips only their tests."""

import pytest
import torch

from mgpp.runtime import NoKernel, build, paths


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        _forget()
        yield
    _forget()


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def compiled(own_cache):
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
    for cached in (build.kernel, build._cache, paths._found):
        cached.cache_clear()
