"""Compiled code under test: skipped where a machine has no compiler for it, and never for a fault of its own."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from mgpp.compiler import NoKernel

Made = TypeVar("Made")


def built(build: Callable[[str], Made], march: str) -> Made:
    try:
        return build(march)
    except NoKernel as reason:
        # A compiler may be too old for some other machine's instructions.
        if "wrong numbers" in str(reason) or ("could not build" in str(reason) and march == "native"):
            raise
        pytest.skip(f"this cannot be compiled here: {reason}")
