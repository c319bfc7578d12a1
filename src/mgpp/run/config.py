"""Everything that decides how a run comes out, in one frozen place."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from mgpp import tasks
from mgpp.tasks import Data, Source, describe_data

if TYPE_CHECKING:  # a command's help tells the defaults below, and does not wait for torch
    from mgpp.methods import Method
    from mgpp.methods.times import Run

Precision = Literal["fp32", "bf16", "fp16"]
Device = Literal["auto", "cpu", "cuda"]

# Beyond them a number is a slip of the finger: a million steps a day, for ten days; more processes than a machine has.
MOST_EPOCHS, MOST_STEPS = 1_000_000, 10_000_000
MOST_PROCESSES = 1_024

# None changes what is trained, so a run may be resumed elsewhere, with more workers and other trackers, and with fewer
# rows scored at a time than those for which the memory was too small.
FREE_TO_CHANGE = {"output", "report_to", "workers", "eval_batch_size"}


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run: `model` on `data`, pruned by `method` (None: dense), into the folder `output`.

    `task` is a name of mgpp.tasks.TASKS; columns and the settings of one kind of task are as in mgpp.tasks.Source.
    The learning rate warms up over `warm_up` of the run, then falls linearly to `lr_end` times itself. Gradients are
    clipped to `max_grad_norm` (0: never) before a prior joins them. `max_steps` takes the place of `epochs`.
    `optimizer` is "mgpp", for mgpp.AdamW, or what the Trainer calls another. With a `teacher` the model learns
    (1 - `distil_weight`) from the labels and `distil_weight` from its answers, from which alone it learns of
    `unlabelled` rows. `report_to` names trackers as the Trainer does: tensorboard, wandb, mlflow, ... Code that a model
    or a teacher brings with it is run only with `trust_remote_code`. `score_before` says whether the model is scored as
    loaded, too; None: where its task is scored without writing text, which may take as long as the training.
    """

    model: str
    data: Data
    output: str
    task: str = "text"
    method: "Method | None" = None

    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    train_split: str | None = None
    eval_data: Data | None = None
    eval_split: str | None = None
    holdout: float = 0.1
    unlabelled: Data | None = None
    max_length: int | None = None
    new_head: bool = False
    trust_remote_code: bool = False

    doc_stride: int = 128
    max_answer_length: int = 30
    n_best: int = 20
    target_length: int = 128
    beams: int = 8
    source_prefix: str = ""
    stream: bool = False
    train_size: int | None = None
    mlm_probability: float = 0.15

    epochs: float = 3.0
    max_steps: int | None = None
    batch_size: int = 32
    accumulate: int = 1
    learning_rate: float = 5e-5
    lr_end: float = 0.1
    warm_up: float = 0.06
    max_grad_norm: float = 1.0
    weight_decay: float = 0.0
    optimizer: str = "mgpp"
    group_by_length: bool = False
    precision: Precision = "fp32"
    device: Device = "auto"
    seed: int = 0

    teacher: str | None = None
    distil_temperature: float = 2.0
    distil_weight: float = 0.5
    distil_hidden: float = 0.0

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    score_before: bool | None = None
    eval_batch_size: int = 64
    eval_steps: int | None = None
    logging_steps: int = 10
    save_steps: int = 500
    workers: int = 0
    report_to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kind = tasks.find_task(self.task)
        if self.max_length is None:  # the number itself, so that a result tells it
            object.__setattr__(self, "max_length", kind.max_length)
        _ = self.source  # it checks its settings
        for name in ("batch_size", "accumulate", "eval_batch_size", "logging_steps", "save_steps"):
            self._require(name, getattr(self, name) >= 1, "at least 1")
        for name in ("max_steps", "eval_steps"):
            self._require(name, getattr(self, name) is None or getattr(self, name) >= 1, "at least 1")
        self._require("workers", 0 <= self.workers <= MOST_PROCESSES, f"a number of processes, 0 to {MOST_PROCESSES:,}")
        for name in ("max_grad_norm", "weight_decay", "seed"):
            self._require(name, _is_finite(getattr(self, name)) and getattr(self, name) >= 0, "a number, at least 0")
        self._require("epochs", 0 < self.epochs <= MOST_EPOCHS, f"a number greater than 0, at most {MOST_EPOCHS:,}")
        learning_rate = self.learning_rate
        self._require("learning_rate", _is_finite(learning_rate) and learning_rate > 0, "a number greater than 0")
        self._require_distillation()
        self._require("lr_end", 0 <= self.lr_end <= 1, "a share of the learning rate, in [0, 1]")
        self._require("warm_up", 0 <= self.warm_up < 1, "a share of the run, in [0, 1)")
        check_machine(self.precision, self.device)
        if self.save_steps % self.logging_steps:
            # The logged loss is a mean since the last log: a run resumed between two logs would log another.
            raise ValueError(
                f"save_steps={self.save_steps} is no multiple of logging_steps={self.logging_steps}: a resumed run "
                "would then log other losses; change one of them"
            )

    def _require_distillation(self) -> None:
        temperature = self.distil_temperature
        self._require("distil_temperature", _is_finite(temperature) and temperature > 0, "a number greater than 0")
        self._require("distil_weight", 0 <= self.distil_weight <= 1, "the teacher's share of the loss, in [0, 1]")
        hidden = self.distil_hidden
        self._require("distil_hidden", _is_finite(hidden) and hidden >= 0, "a number, at least 0")
        for name in ("distil_temperature", "distil_weight", "distil_hidden"):
            if self.teacher is None and getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise ValueError(f"{name}={getattr(self, name)} and no teacher: give one (--teacher), or leave it out")
        if self.unlabelled is not None and (self.teacher is None or self.distil_weight == 0):
            why = "no teacher to answer them" if self.teacher is None else "distil_weight=0: nobody learns from them"
            cure = "give one (--teacher)" if self.teacher is None else "raise it"
            raise ValueError(f"unlabelled={describe_data(self.unlabelled)} and {why}: {cure}, or leave it out")

    def _require(self, name: str, holds: bool, what: str) -> None:
        if not holds:
            raise ValueError(f"{name}={getattr(self, name)}: it must be {what}")

    @property
    def source(self) -> Source:
        return Source(**{field.name: getattr(self, field.name) for field in fields(Source)})

    def length(self, examples: int, *, devices: int = 1) -> "Run":
        """As the Trainer will count it."""
        from mgpp.methods.times import Run

        per_epoch = math.ceil(math.ceil(examples / (self.batch_size * devices)) / self.accumulate)
        total = self.max_steps or math.ceil(self.epochs * per_epoch)
        if total > MOST_STEPS:
            raise ValueError(f"{total:,} steps: a run has at most {MOST_STEPS:,}; lower epochs or max_steps")
        return Run(total_steps=total, steps_per_epoch=per_epoch, train_size=examples)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; an object of `datasets` is only described, and a run of it resumed with one like it."""
        from mgpp import methods

        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain |= {name: describe_data(plain[name]) for name in ("data", "eval_data", "unlabelled")}
        method = None if self.method is None else methods.to_dict(self.method)
        return {**plain, "method": method, **{name: list(plain[name]) for name in _LISTS}}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "RunConfig":
        """What `to_dict` wrote."""
        from mgpp import methods

        method = None if plain["method"] is None else methods.from_dict(plain["method"])
        lists = {name: tuple(plain.get(name, ())) for name in _LISTS}
        return cls(**{**plain, "method": method, **lists})


def check_machine(precision: str, device: str) -> None:
    for name, value, known in (("precision", precision, Precision), ("device", device, Device)):
        if value not in get_args(known):
            raise ValueError(f"{name}={value}: it must be one of {', '.join(get_args(known))}")


_LISTS = ("include", "exclude", "report_to")


def differences(saved: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What of two configs would make two different runs, one line each; of a method only the settings that differ."""
    found = []
    for key in sorted(saved.keys() | now.keys()):
        old, new = saved.get(key), now.get(key)
        if key in FREE_TO_CHANGE or old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new)
        else:
            found.append(f"{key}: was {old}, now {new}")
    return found


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond all floats
        return False
