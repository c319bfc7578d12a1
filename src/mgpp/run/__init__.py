"""One run, from a config to a folder with a model, its records and its result."""

from mgpp.run.config import RunConfig
from mgpp.run.evaluation import evaluate
from mgpp.run.training import RunInterrupted, RunStopped, run

__all__ = ["RunConfig", "RunInterrupted", "RunStopped", "evaluate", "run"]
