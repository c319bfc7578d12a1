"""Times as people write them (1000, 0.1, "2ep"), resolved once to steps when the run's length is known."""

import math
from dataclasses import dataclass

Time = int | float | str


@dataclass(frozen=True, kw_only=True)
class Run:
    """The facts of a training run that a method's numbers depend on."""

    total_steps: int
    steps_per_epoch: float | None = None
    train_size: int | None = None

    def __post_init__(self) -> None:
        if self.total_steps < 1:
            raise ValueError(f"total_steps={self.total_steps}: a run has at least one optimizer step")
        if self.train_size is not None and self.train_size < 1:
            raise ValueError(f"train_size={self.train_size}: it is the number of training examples, at least 1")


def check_time(name: str, value: Time, *, least: int = 0) -> None:
    """Refuse what can never be a time, before a run is known."""
    _parse(name, value, least)


def resolve_time(name: str, value: Time, run: Run, *, least: int = 0) -> int:
    """The step that `value` means in this run: an int as it is, a fraction of the run, or epochs."""
    amount, unit = _parse(name, value, least)
    if unit == "step":
        return int(amount)
    if unit == "run":
        return max(least, round(amount * run.total_steps))
    if run.steps_per_epoch is None:
        raise ValueError(f"{name}={value!r} is in epochs and the epoch's length is not known: pass steps_per_epoch")
    return max(least, round(amount * run.steps_per_epoch))


def _parse(name: str, value: Time, least: int) -> tuple[float, str]:
    forms = f'{name}={value!r}: a time is steps (1000), a fraction of the run (0.1) or epochs ("2ep")'
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(forms)
    if isinstance(value, int):
        if value < least:
            raise ValueError(f"{name}={value}: at least {least}")
        return value, "step"
    if isinstance(value, float):
        if not 0 < value <= 1:
            raise ValueError(f"{name}={value}: a fraction of the run lies in (0, 1]; write steps without a point")
        return value, "run"
    number = value.removesuffix("ep").strip()
    try:
        epochs = float(number)
    except ValueError:
        raise ValueError(forms) from None
    if number == value.strip() or not math.isfinite(epochs) or epochs < 0:
        raise ValueError(forms)
    return epochs, "epoch"
