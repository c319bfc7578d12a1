"""One process that has imported everything, for all tests that need a run on a failing disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reliability.forked import Forked, compiler
from tests.reliability.runs import command, save_given
from tests.run.conftest import config  # noqa: F401


@pytest.fixture(scope="session")
def forked() -> Iterator[Forked]:
    pytest.importorskip("datasets")
    if compiler() is None:
        pytest.skip("no C compiler, or not Linux")
    process = Forked()
    yield process
    process.close()


@pytest.fixture(scope="session")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return save_given(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="session")
def whole(forked: Forked, given: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an undisturbed run leaves."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    ended = forked(command(given, folder), folder)
    assert ended.code == 0, ended.err
    return folder
