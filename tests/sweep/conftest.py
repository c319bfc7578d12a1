"""A sweep of two settings on the tiny model, and processes that only pretend to train."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mgpp.presets import Settings
from mgpp.sweep import Sweep
from mgpp.sweep.trial import TrialJob

# Leaves what a finished run leaves, as far as a sweep reads it; then does what it is told.
PRETEND = """
import json, os, pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
job = json.loads(sys.argv[1])
folder = pathlib.Path(job["config"]["output"])
folder.mkdir(parents=True, exist_ok=True)
(folder / "run.json").write_text(json.dumps({"config": job["config"]}))
(folder / "model.safetensors").write_text("weights")
exec(job["act"])
(folder / "result.json").write_text(json.dumps({
    "metric": "accuracy", "after": {"accuracy": job["score"]}, "seconds": 1.5, "sparsity": 0.75,
}))
"""


@dataclass
class Pretending:
    """A launch for tests: a trial's score is 1 - 10 · |learning rate - 0.01|, unless it is told to act otherwise."""

    acts: dict[int, str] = field(default_factory=dict)
    begun: list[TrialJob] = field(default_factory=list)

    def __call__(self, job: TrialJob, environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
        self.begun.append(job)
        score = 1 - 10 * abs(job.config.learning_rate - 0.01)
        told = json.dumps({"config": job.config.to_dict(), "score": score, "act": self.acts.get(job.number, "")})
        return subprocess.Popen(
            [sys.executable, "-S", "-c", PRETEND, told], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    @property
    def points(self) -> list[dict]:
        return [dict(job.params) for job in self.begun]


@pytest.fixture
def pretending() -> Pretending:
    return Pretending()


@pytest.fixture
def settings(tiny_bert: Path, tiny_reviews: Path) -> Settings:
    run = {"model": str(tiny_bert), "data": str(tiny_reviews), "max_steps": 10, "batch_size": 8, "device": "cpu"}
    run |= {"logging_steps": 1, "save_steps": 2}
    return Settings(run=run, method={"method": "mgpp", "sparsity": 0.75, "start": 0.2, "end": 0.8, "every": 2})


@pytest.fixture
def asked(settings: Settings, tmp_path: Path) -> Sweep:
    grid = {"learning_rate": [1e-3, 5e-3, 1e-2], "method.spike_var": [1e-9, 1e-10]}
    return Sweep(output=str(tmp_path / "out"), settings=settings, grid=grid)
