"""One run, from a config to a folder with a model, its records and its result."""

from typing import TYPE_CHECKING

from mgpp.lazy import lazily

if TYPE_CHECKING:
    from mgpp.run.config import RunConfig
    from mgpp.run.evaluation import evaluate
    from mgpp.run.reasons import RunInterrupted, RunStopped
    from mgpp.run.training import run
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "config": ["RunConfig"],
            "evaluation": ["evaluate"],
            "reasons": ["RunInterrupted", "RunStopped"],
            "training": ["run"],
        },
    )

__all__ = ["RunConfig", "RunInterrupted", "RunStopped", "evaluate", "run"]
