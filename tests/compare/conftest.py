"""A comparison of two methods on the tiny model, and processes that only pretend to train."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mgpp.compare import Comparison
from mgpp.compare.grid import Cell

RAMP = {"start": 2, "end": 8, "every": 2}

# Leaves what a finished run leaves, as far as a comparison reads it; then says and does what it is told.
PRETEND = """
import json, os, pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell starts in its background
job = json.loads(sys.argv[1])
folder = pathlib.Path(job["config"]["output"])
folder.mkdir(parents=True, exist_ok=True)
(folder / "run.json").write_text(json.dumps({"config": job["config"]}))
exec(job["act"])
(folder / "result.json").write_text(json.dumps({
    "metric": "accuracy", "after": {"accuracy": job["score"]}, "seconds": 1.5, "sparsity": job["sparsity"],
    "versions": {"mgpp": "0"}, "hardware": {"gpu": None, "processor": "abacus"},
    "steps": 10, "train_rows": 48, "eval_rows": 32, "config": job["config"],
}))
"""


@dataclass
class Pretending:
    """A launch for tests: remembers what was begun, with what environment."""

    scores: dict[str, float] = field(default_factory=dict)
    acts: dict[str, str] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    environments: list[dict[str, str]] = field(default_factory=list)

    def __call__(self, cell: Cell, environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
        self.begun.append(cell.name)
        self.environments.append(environment)
        told: dict[str, Any] = {"score": self.scores.get(cell.name, 0.5), "act": self.acts.get(cell.name, "")}
        job = json.dumps({"config": cell.config.to_dict(), "sparsity": cell.sparsity, **told})
        return subprocess.Popen(
            [sys.executable, "-S", "-c", PRETEND, job], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )


@pytest.fixture
def pretending() -> Pretending:
    return Pretending()


@pytest.fixture
def comparison(tiny_bert: Path, tiny_reviews: Path, tmp_path: Path) -> Comparison:
    return Comparison(
        output=str(tmp_path / "out"),
        methods=["gmp", "platon"],
        sparsities=[0.5, 0.75],
        seeds=[0, 1],
        settings={"gmp": RAMP, "platon": RAMP},
        training={
            "model": str(tiny_bert),
            "data": str(tiny_reviews),
            "max_steps": 10,
            "batch_size": 8,
            "learning_rate": 5e-3,
            "logging_steps": 1,
            "save_steps": 3,
            "device": "cpu",
        },
    )
