"""The kernels' tests need Triton, and say so where it is not."""

import functools
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from mgpp.kernels import passes
from tests.compilers import built

pytest.importorskip("triton", reason="the kernels need Triton")

from triton import language
from triton.runtime import interpreter


@functools.cache
def builtins_of(part: Any) -> list[str]:
    return [name for name, member in inspect.getmembers(part) if language.core.is_builtin(member)]


def patch_builtin(part: Any, *rest: Any) -> None:
    """As the interpreter's own, which goes through all members at every call of a function: a quarter of its time."""
    for name in builtins_of(part):
        member = getattr(part, name)
        if language.core.is_builtin(member):
            interpreter._patch_attr(part, name, member, *rest)


interpreter._patch_builtin = patch_builtin


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=["compiled, 1 thread", "compiled, 2 threads", "torch operations"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """How a CPU does a pruned step's work."""
    if request.param == "torch operations":
        monkeypatch.setattr(passes, "compiled", lambda: None)
        yield request.param
        return
    compiled()
    before = torch.get_num_threads()
    torch.set_num_threads(int(request.param.split()[1]))
    yield request.param
    torch.set_num_threads(before)


@functools.cache
def compiled(march: str = "native") -> passes.Passes:
    return built(passes.build, march)
