"""A run of ten steps, which each test varies."""

from pathlib import Path

import pytest

import mgpp
from mgpp.run import RunConfig
from tests.tiny import RAMP


@pytest.fixture
def config(tiny_bert: Path, tiny_reviews: Path, tmp_path: Path) -> RunConfig:
    return RunConfig(
        model=str(tiny_bert),
        data=str(tiny_reviews),
        output=str(tmp_path / "out"),
        method=mgpp.MGPP(**RAMP),
        max_steps=10,
        batch_size=8,
        learning_rate=5e-3,
        logging_steps=1,
        save_steps=3,
        device="cpu",
    )
