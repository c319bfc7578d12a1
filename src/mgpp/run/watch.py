"""Callbacks that every run carries: whole checkpoints, its seconds, and for a dense run its records."""

import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from mgpp import records
from mgpp.disk import on_disk
from mgpp.finite import CURE, Skips, require_finite
from mgpp.renamed import restore_renamed
from mgpp.run.folder import WHOLE_FILE, keep_newest, let_go_of_replaced, mark_whole
from mgpp.trainer import RECORDS_FILE, is_reproducible

KEPT = 2  # checkpoints; the older one for a disk that loses the newer


class Checkpoints(TrainerCallback):
    """Marks each checkpoint as whole, keeps the newest, and counts the seconds over all the sessions of a run: of
    training, and of those how many it waited for data.

    The last step always gets one, before the scoring that may take as long as the training did. What only a further
    step would need is left out of it: the optimizer's state is twice the model.
    """

    def __init__(self) -> None:
        self._before = self.waited = 0.0
        self._began: float | None = None

    def resume(self, checkpoint: Path) -> None:
        """Count on from there, and forget the records that came after it."""
        self._before, self.waited, size = _read_mark(checkpoint / WHOLE_FILE)
        records.cut(checkpoint.parent / RECORDS_FILE, size)

    @property
    def seconds(self) -> float:
        return self._before + (0.0 if self._began is None else time.perf_counter() - self._began)

    def wait(self, seconds: float) -> None:
        self.waited += seconds

    @property
    def loader_share(self) -> float:
        """Of the training's seconds, the share in which it had no batch to go on with."""
        return min(1.0, self.waited / self.seconds) if self.seconds else 0.0

    def stop(self) -> None:
        self._before, self._began = self.seconds, None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._began = time.perf_counter()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.global_step >= state.max_steps:
            self.stop()  # what is written from here on is not training
            control.should_save, args.save_only_model = True, True
            control.should_evaluate = False  # the run's own scoring follows, of the same weights

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        folder = Path(str(args.output_dir))
        on_disk(folder / RECORDS_FILE)  # a resumed run writes only those that come after the checkpoint
        told = {"step": state.global_step, "seconds": self.seconds, "waited": self.waited}
        told["records"] = (folder / RECORDS_FILE).stat().st_size
        mark_whole(folder / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}", told)
        keep_newest(folder, KEPT)
        let_go_of_replaced(folder.parent)


def _read_mark(marker: Path) -> tuple[float, float, int]:
    """Seconds of training, of waiting, and the bytes of records up to there."""
    try:
        told = json.loads(marker.read_text(encoding="utf-8"))
        return float(told["seconds"]), float(told["waited"]), int(told["records"])
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        told = f"{marker} is damaged ({type(error).__name__}: {error})"
        raise ValueError(f"{told}: remove {marker.parent}, to resume from an earlier one") from None


class Dense(TrainerCallback):
    """What PruningCallback does beside pruning: writes records, and refuses a step that is not finite."""

    def __init__(self) -> None:
        self._records: Path | None = None
        self._step = self._taken = 0
        self._skips = Skips()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._step = self._taken = state.global_step
        self._records = Path(str(args.output_dir)) / RECORDS_FILE
        if state.global_step > 0:
            restore_renamed(kwargs["model"], self._records.parent / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}")
            records.rewind(self._records, state.global_step)
        else:
            self._records.unlink(missing_ok=True)
            records.append(self._records, {"event": "start", "step": 0, "method": None, "steps": state.max_steps})
        optimizer = kwargs["optimizer"]
        getattr(optimizer, "optimizer", optimizer).register_step_pre_hook(self._require_finite)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._step = state.global_step
        self._skips.count(self._taken)
        if control.should_save:
            require_finite(kwargs["model"], self._step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        told = {key: value for key, value in (logs or {}).items() if is_reproducible(key, value)}
        if told and self._records is not None:
            records.append(self._records, {"event": "log", "step": state.global_step, **told})

    def _require_finite(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        # A fused optimizer is handed a GradScaler's overflows, and skips them itself.
        found_inf = getattr(optimizer, "found_inf", None)
        if found_inf is not None and bool(found_inf):
            return
        grads = [
            weight.grad for group in optimizer.param_groups for weight in group["params"] if weight.grad is not None
        ]
        largest = float(nn.utils.get_total_norm(grads, norm_type=math.inf))
        if not math.isfinite(largest):
            raise FloatingPointError(
                f"the gradient of step {self._step + 1} is {largest}: the step is refused and the weights are as step "
                f"{self._step} left them; {CURE}"
            )
        self._taken += 1
