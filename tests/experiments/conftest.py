"""The laboratory's files import each other by their names alone, as scripts do."""

import sys
from pathlib import Path

import pytest

from mgpp.methods import METHODS

LAB = Path(__file__).parent.parent.parent / "experiments" / "lab"


@pytest.fixture
def lab(monkeypatch):
    monkeypatch.syspath_prepend(str(LAB))
    yield
    for file in LAB.glob("*.py"):
        sys.modules.pop(file.stem, None)
    METHODS.pop("tried", None)  # scores.py puts it into the library's table, where no other test looks for it
