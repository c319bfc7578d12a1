"""The Optuna side of a sweep: where the study lies, how the next point is chosen, when a trial is given up."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgpp.sweep.grid import Range, Sweep, Values

if TYPE_CHECKING:
    import optuna

SAMPLERS = ("tpe", "random", "grid")
PRUNERS = ("median", "halving", "none")
JOURNAL = "study.journal"
SQLITE = "sqlite:///"
STORAGE_VARIABLE = "MGPP_SWEEP_STORAGE"


def require_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ImportError(f"a sweep needs Optuna: pip install 'mgpp[sweep]' ({error})") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def storage_name(text: str | None, folder: Path) -> str:
    """As every process can open it: an absolute path of a journal, or a URL."""
    if text is None:
        return str((folder / JOURNAL).resolve())
    if "://" in text:
        return text
    path = Path(text).expanduser().resolve()
    return f"{SQLITE}{path}" if path.suffix in (".db", ".sqlite", ".sqlite3") else str(path)


def open_storage(name: str) -> "optuna.storages.BaseStorage":
    optuna = require_optuna()
    is_url = "://" in name
    try:
        if not is_url or name.startswith(SQLITE):
            Path(name.removeprefix(SQLITE)).parent.mkdir(parents=True, exist_ok=True)
        if is_url:
            return optuna.storages.get_storage(name)
        backend = optuna.storages.journal.JournalFileBackend(name)
        return optuna.storages.JournalStorage(backend)
    except Exception as error:  # each data base has a driver of its own, with errors of its own
        first = str(error).strip().splitlines()[:1] or [type(error).__name__]
        told = without_password(f"the study's storage {name} cannot be opened: {first[0]}")
        raise ValueError(told) from error


def without_password(storage: str) -> str:
    """A URL may have a password without a user (redis), or among its settings."""
    plain = re.sub(r"(://[^:/@\s]*):\S+@", r"\1:***@", storage)
    return re.sub(r"([?&]\w*(?:password|passwd|pwd|token)=)[^&\s]*", r"\1***", plain)


def distributions(grid: Mapping[str, Values]) -> "dict[str, optuna.distributions.BaseDistribution]":
    return {key: _distribution(values) for key, values in grid.items()}


def _distribution(values: Values) -> "optuna.distributions.BaseDistribution":
    optuna = require_optuna()
    if not isinstance(values, Range):
        return optuna.distributions.CategoricalDistribution(list(values))
    whole = isinstance(values.low, int) and isinstance(values.high, int)
    kind = optuna.distributions.IntDistribution if whole else optuna.distributions.FloatDistribution
    return kind(values.low, values.high, log=values.low > 0)


def make_sampler(name: str, sweep: Sweep, *, seed: int | None) -> "optuna.samplers.BaseSampler":
    samplers = require_optuna().samplers
    if name == "tpe":
        # constant_liar: trials that run at the same time are kept apart. multivariate: settings that go together are
        # chosen together.
        return samplers.TPESampler(seed=seed, constant_liar=True, multivariate=True)
    if name == "random":
        return samplers.RandomSampler(seed=seed)
    if name != "grid":
        raise ValueError(f"sampler={name!r} is not one of {', '.join(SAMPLERS)}")
    if sweep.size is None:
        raise ValueError("sampler='grid' needs lists of values: a range (LOW..HIGH) has no end of them")

    class Grid(samplers.GridSampler):  # type: ignore[name-defined]
        """Trial k is point k of the grid, on whatever machine."""

        def after_trial(self, *args: Any, **kwargs: Any) -> None:
            pass  # it would stop a study.optimize() that nobody called

    return Grid({key: list(values) for key, values in sweep.grid.items() if not isinstance(values, Range)}, seed=0)


def make_pruner(name: str, *, patience: float) -> "optuna.pruners.BasePruner":
    """`patience` is the share of a run before which no trial is given up; steps are told in percent of the run."""
    pruners = require_optuna().pruners
    if not 0 <= patience < 1:
        raise ValueError(f"patience={patience}: the share of a run before which no trial is given up, in [0, 1)")
    percent = round(100 * patience)
    if name == "median":
        return pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=percent)
    if name == "halving":
        return pruners.SuccessiveHalvingPruner(min_resource=max(1, percent), reduction_factor=2)
    if name == "none":
        return pruners.NopPruner()
    raise ValueError(f"pruner={name!r} is not one of {', '.join(PRUNERS)}")
