"""One trial in a process of its own, which reports its scores to the study. `python -m mgpp.sweep.worker JSON`."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from mgpp.compare.worker import obey, tell
from mgpp.run import RunConfig, RunStopped, run
from mgpp.run.folder import write_json
from mgpp.sweep.study import STORAGE_VARIABLE, make_pruner, open_storage, require_optuna
from mgpp.sweep.trial import GIVEN_UP_FILE


class GivenUp(Exception):
    """The pruner's word: others did better at this point."""


class Reports(TrainerCallback):
    """Tells the study every score on the way, at its percent of the run: trials differ in their steps."""

    def __init__(self, trial: Any, metric: str) -> None:
        self._trial = trial
        self._metric = f"eval_{metric}"

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        if self._metric not in (metrics or {}) or not 0 < state.global_step < state.max_steps:
            return  # before training, and the last one, which is the trial's value
        assert metrics is not None
        self._trial.report(metrics[self._metric], step=round(100 * state.global_step / state.max_steps))
        if self._trial.should_prune():
            raise GivenUp(f"given up after step {state.global_step} of {state.max_steps}: others did better by then")


def work(asked: Mapping[str, Any]) -> None:
    optuna = require_optuna()
    study = optuna.load_study(
        study_name=asked["study"],
        storage=open_storage(os.environ[STORAGE_VARIABLE]),
        sampler=optuna.samplers.RandomSampler(),  # the point is chosen; this one costs nothing
        pruner=make_pruner(asked["pruner"], patience=asked["patience"]),
    )
    reports = Reports(optuna.trial.Trial(study, asked["trial"]), asked["metric"])
    config = RunConfig.from_dict(asked["config"])
    try:
        run(config, resume=asked["resume"], callbacks=[reports], tell=tell)
    except RunStopped as stopped:
        if not isinstance(stopped.__cause__, GivenUp):
            raise
        folder = Path(config.output)
        folder.mkdir(parents=True, exist_ok=True)  # a run without a checkpoint leaves nothing
        write_json(folder / GIVEN_UP_FILE, {"reason": str(stopped.__cause__)})


def main(job: str) -> int:
    return obey(lambda: work(json.loads(job)))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
