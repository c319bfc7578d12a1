"""A sweep from its grid to its best: points are asked of the study one by one, run as processes, and told back."""

import itertools
from pathlib import Path
from typing import Any

from mgpp.compare.pool import Launch, Pool
from mgpp.disk import alone, require_own
from mgpp.run import RunInterrupted
from mgpp.run.plan import Plan, make_plan
from mgpp.sweep.board import OWNER_FILE, Board, Search, Tell
from mgpp.sweep.grid import Sweep
from mgpp.sweep.study import JOURNAL, make_pruner, make_sampler, require_optuna
from mgpp.sweep.trial import TrialJob, launch

CHECKED_POINTS = 2_000  # of a larger grid the rest is checked when it is run


def sweep(
    asked: Sweep,
    search: Search,
    *,
    workers: int = 1,
    keep_models: bool = False,
    examples: int | None = None,
    tell: Tell = lambda line: None,
    launch: Launch[TrialJob] = launch,
) -> dict[str, Any]:
    """Run trials until the study has as many as asked for; returns what `results.json` holds.

    Bad input, and a study of another sweep, raise ValueError, OSError or ImportError before anything is run. A trial
    that fails is marked with its reason, and the others go on. `examples` is written into the best trial's preset.
    """
    require_optuna()
    require_own(asked.folder, "sweep", [OWNER_FILE, JOURNAL], beside=["logs", Path(search.storage or "").name])
    pool = Pool(workers, asked.folder / "logs", launch=launch)
    make_sampler(search.sampler, asked, seed=0)
    make_pruner(search.pruner, patience=search.patience)
    plan = check_plan(asked)
    with alone(asked.folder, "sweep"):
        board = Board(asked, search, plan, keep_models=keep_models, examples=examples, tell=tell)
        board.say_found()
        try:
            pool.run(board.jobs(), board.ended)
        except KeyboardInterrupt:
            board.write()
            raise RunInterrupted(
                f"interrupted; {board.done} of {board.limit} trials are done: the same command goes on from there"
            ) from None
        return board.write()


def check_plan(asked: Sweep) -> Plan:
    """Model and data are read once here, and every point's schedule tried: such mistakes would fail in every trial."""
    first = next(asked.points())
    plan = make_plan(asked.config(first, output=str(asked.folder)), asked.folder)
    assert plan.length.train_size is not None
    for point in itertools.islice(asked.points(), CHECKED_POINTS):
        config = asked.config(point, output=str(asked.folder))
        if config.method is not None:
            config.method.recipe(config.length(plan.length.train_size))
    return plan
