"""The study of a sweep as one process sees it: what is known, what of it runs here, and how it ended."""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mgpp.run import RunConfig
from mgpp.run.config import differences
from mgpp.run.plan import Plan
from mgpp.sweep.grid import Range, Sweep
from mgpp.sweep.results import collect, write_results
from mgpp.sweep.study import distributions, make_sampler, open_storage, require_optuna, storage_name, without_password
from mgpp.sweep.trial import TrialJob

Tell = Callable[[str], None]
DEFAULT_TRIALS = 20
REPETITIONS = 10
OWNER_FILE = ".owner"
# A study may be shared by machines that are not alike, and keep their data in other places.
_FREE = ("output", "workers", "device")
_BY_NAME = ("model", "data", "teacher", "unlabelled")


@dataclass(frozen=True, kw_only=True)
class Search:
    """How a sweep goes about it. `trials` are those of the whole study, whichever machine runs them."""

    trials: int | None = None
    sampler: str = "tpe"
    pruner: str = "median"
    patience: float = 0.5
    storage: str | None = None
    study: str = "mgpp"

    def __post_init__(self) -> None:
        if self.trials is not None and self.trials < 1:
            raise ValueError(f"trials={self.trials}: at least 1")


class Board:
    """What the study knows, and what of it runs here."""

    def __init__(
        self, asked: Sweep, search: Search, plan: Plan, *, keep_models: bool, examples: int | None, tell: Tell
    ) -> None:
        self._asked, self._search, self._plan = asked, search, plan
        self._keep_models, self._examples, self._tell = keep_models, examples, tell
        self._optuna = require_optuna()
        self._storage_name = storage_name(search.storage, asked.folder)
        self._storage = open_storage(self._storage_name)
        self._owner = _owner(asked.folder)
        self._study = self._open()
        self.limit = self._limit()

    def _open(self) -> Any:
        direction = "minimize" if self._plan.task.lower_is_better else "maximize"
        study = self._optuna.create_study(
            study_name=self._search.study, storage=self._storage, direction=direction, load_if_exists=True
        )
        self._check_same(study)
        # Another seed for every start: the same one would choose the same points again. Machines that share a study
        # are kept apart by having none.
        shared = self._search.storage is not None
        seed = None if shared else int(self._asked.settings.run.get("seed", 0)) + len(study.get_trials(deepcopy=False))
        study.sampler = make_sampler(self._search.sampler, self._asked, seed=seed)
        return study

    def _check_same(self, study: Any) -> None:
        mine = json.loads(json.dumps(_fingerprint(self._asked, self._search, self._plan)))
        theirs = study.user_attrs.get("asked")
        if theirs is None:
            study.set_user_attr("asked", mine)
            return
        different = differences(theirs, mine)
        if different:
            raise ValueError(
                f"study {self._search.study} in {without_password(self._storage_name)} is of another sweep "
                f"({'; '.join(different)}): sweep with its settings, or name another (--study, --output)"
            )

    def _limit(self) -> int:
        size, trials = self._asked.size, self._search.trials
        if trials is None:
            trials = size if self._search.sampler == "grid" and size is not None else DEFAULT_TRIALS
        return trials if size is None else min(trials, size)

    @property
    def trials(self) -> list[Any]:
        return self._study.get_trials(deepcopy=False)

    @property
    def tried(self) -> list[Any]:
        """Without those that were not run, because their point had been."""
        return [trial for trial in self.trials if "same_as" not in trial.user_attrs]

    @property
    def done(self) -> int:
        return sum(trial.state.is_finished() for trial in self.tried)

    def say_found(self) -> None:
        mine = len(self._own())
        more = f", {self.done} are done already" if self.done else ""
        more += f", {mine} were begun here and go on" if mine else ""
        self._tell(f"study {self._search.study} in {without_password(self._storage_name)}: {self.limit} trials{more}")

    # Which runs

    def jobs(self) -> Iterator[TrialJob]:
        for trial in self._own():
            job = self._job(trial)
            if job.is_finished:  # it ended, and this process before it could say so
                self.ended(job, None)
            else:
                yield job
        # A sampler may come back to a point many times before it takes the last one.
        while len(self.tried) < self.limit and len(self.trials) < REPETITIONS * self.limit:
            trial = self._study.ask(fixed_distributions=distributions(self._asked.grid))
            trial.set_user_attr("owner", self._owner)
            if not self._is_known(trial):
                yield self._job(trial)

    def _own(self) -> list[Any]:
        """Begun in this folder and not ended: it is locked, so nobody else is at work on them."""
        running = self._optuna.trial.TrialState.RUNNING
        return [t for t in self.trials if t.state == running and t.user_attrs.get("owner") == self._owner and t.params]

    def _job(self, trial: Any) -> TrialJob:
        config = self._asked.config(trial.params, output=str(self._asked.folder / "trials" / f"{trial.number:04d}"))
        return TrialJob(
            number=trial.number,
            id=trial._trial_id,
            params=trial.params,
            config=replace(config, eval_steps=self._eval_steps(config)),
            study={
                "storage": self._storage_name,
                "study": self._search.study,
                "pruner": self._search.pruner,
                "patience": self._search.patience,
                "metric": self._plan.task.metric,
            },
        )

    def _eval_steps(self, config: RunConfig) -> int | None:
        if self._search.pruner == "none":
            return config.eval_steps
        assert self._plan.length.train_size is not None
        steps = config.length(self._plan.length.train_size).total_steps
        return config.eval_steps or max(1, steps // self._asked.evaluations)

    def _is_known(self, trial: Any) -> bool:
        """A point that was tried already would come out the same: it is told, and not run again."""
        states = self._optuna.trial.TrialState
        for other in self.trials:
            if other.number != trial.number and other.params == trial.params and other.state.is_finished():
                trial.set_user_attr("same_as", other.user_attrs.get("same_as", other.number))
                if other.state == states.COMPLETE:
                    self._study.tell(trial, other.value)
                else:
                    self._study.tell(trial, state=other.state)
                self._say(trial.number, f"the same point as trial {other.number}, not run again")
                return True
        return False

    # How they ended

    def ended(self, job: TrialJob, reason: str | None) -> None:
        states = self._optuna.trial.TrialState
        result, given_up = job.result, job.given_up
        if result is not None:
            self._complete(job, result)
        elif given_up is not None:
            self._note(job, reason=given_up["reason"])
            self._study.tell(job.number, state=states.PRUNED)
            self._say(job.number, given_up["reason"])
        else:
            self._note(job, reason=reason)
            self._study.tell(job.number, state=states.FAIL)
            self._say(job.number, f"failed: {reason}")
        job.tidy(keep_model=self._keep_models)
        self.write()

    def _complete(self, job: TrialJob, result: Mapping[str, Any]) -> None:
        score = result["after"][result["metric"]]
        self._note(job, seconds=result["seconds"], sparsity=result["sparsity"], metrics=result["after"])
        self._study.tell(job.number, score)
        self._say(job.number, f"{result['metric']} {score:.4f}, {result['seconds']:.0f} s")

    def _note(self, job: TrialJob, **attributes: Any) -> None:
        for name, value in attributes.items():
            self._storage.set_trial_user_attr(job.id, name, value)

    def _say(self, number: int, what: str) -> None:
        params = ", ".join(f"{key}={value}" for key, value in self.trials[number].params.items())
        self._tell(f"[{self.done}/{self.limit}] trial {number} ({params}): {what}")

    def write(self) -> dict[str, Any]:
        results = collect(
            self._asked,
            self.trials,
            study=self._search.study,
            storage=without_password(self._storage_name),
            metric=self._plan.task.metric,
            lower_is_better=self._plan.task.lower_is_better,
            scored_on=self._plan.task.notes[-1],
        )
        return write_results(results, self._asked, examples=self._examples)


def _fingerprint(asked: Sweep, search: Search, plan: Plan) -> dict[str, Any]:
    """What all trials of a study must share to be compared."""
    config = plan.config.to_dict()
    method = dict(config.pop("method") or {})
    for key in asked.grid:
        (method if key.startswith("method.") else config).pop(key.removeprefix("method."), None)
    config |= {name: Path(config[name]).name for name in _BY_NAME if config[name] is not None}
    grid = {
        key: f"{values.low}..{values.high}" if isinstance(values, Range) else list(values)
        for key, values in asked.grid.items()
    }
    kept = {key: value for key, value in config.items() if key not in _FREE}
    return {**kept, "method": method, "grid": grid, "sampler": search.sampler, "train_rows": plan.length.train_size}


def _owner(folder: Path) -> str:
    """A name for this folder in the study, by which it knows its own trials again."""
    path = folder / OWNER_FILE
    if not path.is_file():
        path.write_text(uuid.uuid4().hex, encoding="utf-8")
    return path.read_text(encoding="utf-8").strip()
