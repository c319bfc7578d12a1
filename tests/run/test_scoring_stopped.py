"""A run whose last scoring is interrupted or fails has lost nothing: resumed, it is scored, and no step is repeated."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import TrainerCallback

pytest.importorskip("datasets")

import mgpp
from mgpp.run import RunConfig, RunInterrupted, RunStopped, run
from tests.run.test_resume import Killed, outcome
from tests.tiny import RAMP


class WhenScored(TrainerCallback):
    """Raises at the first batch, or after the last, of the scoring that follows the training."""

    def __init__(self, error: BaseException, *, at: str = "on_prediction_step") -> None:
        setattr(self, at, self._fail)
        self._error = error

    def _fail(self, args, state, control, **kwargs):
        if 0 < state.max_steps <= state.global_step:
            raise self._error


class Steps(TrainerCallback):
    def __init__(self) -> None:
        self.trained = self.scored = 0

    def on_step_begin(self, args, state, control, **kwargs):
        self.trained += 1

    def on_evaluate(self, args, state, control, **kwargs):
        self.scored += 1


def outcome_in_full(config: RunConfig) -> tuple:
    result = json.loads((Path(config.output) / "result.json").read_text())
    free = {"seconds", "loader_share", "config", "commit"}
    return (*outcome(config), {key: value for key, value in result.items() if key not in free})


@pytest.mark.parametrize(
    ("error", "at", "method", "more"),
    [
        (KeyboardInterrupt(), "on_prediction_step", mgpp.MGPP(**RAMP), {"save_steps": 100}),
        (Killed(), "on_evaluate", mgpp.GMP(**RAMP, hold=True), {"save_steps": 5, "eval_steps": 4}),
        (RuntimeError("a metric that raises"), "on_evaluate", None, {"accumulate": 2}),
        (Killed(), "on_prediction_step", mgpp.PLATON(**RAMP), {"max_steps": 8, "save_steps": 100}),
        (Killed(), "on_prediction_step", mgpp.LoSparse(**RAMP), {}),
    ],
    ids=["interrupted", "killed", "failed", "whole epochs", "with added weights"],
)
def test_the_scoring_is_resumed_and_no_step_is_taken_again(error, at, method, more, config, tmp_path):
    config = replace(config, method=method, **more)
    whole = replace(config, output=str(tmp_path / "whole"))
    run(whole)
    with pytest.raises((RunStopped, Killed)):
        run(config, callbacks=[WhenScored(error, at=at)])
    steps = Steps()
    run(config, resume=True, callbacks=[steps])
    assert (steps.trained, steps.scored) == (0, 1)
    assert outcome_in_full(config) == outcome_in_full(whole)


def test_a_streamed_run_is_scored_without_a_step_more(config, tiny_corpus, tmp_path):
    corpus = {"data": str(tiny_corpus), "task": "mlm", "max_length": 32, "stream": True}
    config = replace(config, **corpus)
    whole = replace(config, output=str(tmp_path / "whole"))
    run(whole)
    with pytest.raises(RunInterrupted):
        run(config, callbacks=[WhenScored(KeyboardInterrupt())])
    steps = Steps()
    run(config, resume=True, callbacks=[steps])
    assert (steps.trained, steps.scored) == (0, 1)
    assert outcome_in_full(config) == outcome_in_full(whole)


def test_skipped_steps_are_made_up_for_once(config, tmp_path):
    """The event that ends the ramp is then held after the last checkpoint, and told in no record but its own."""
    config = replace(config, method=mgpp.MGPP(**{**RAMP, "end": 10}))
    whole = replace(config, output=str(tmp_path / "whole"))
    run(whole, callbacks=[Behind()])
    with pytest.raises(Killed):
        run(config, callbacks=[Behind(), WhenScored(Killed(), at="on_evaluate")])
    run(config, resume=True)
    assert outcome_in_full(config) == outcome_in_full(whole)


class Behind(TrainerCallback):
    """As if the last two steps had been skipped."""

    def on_train_begin(self, args, state, control, **kwargs):
        self._handle = getattr(kwargs["optimizer"], "optimizer", kwargs["optimizer"])

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 8:
            self._handle.step = lambda *args, **kwargs: None


def test_a_checkpoint_of_the_last_step_is_written_once_and_needs_no_optimizer(config):
    with pytest.raises(Killed):
        run(replace(config, save_steps=5), callbacks=[WhenScored(Killed())])
    first, last = sorted((Path(config.output) / "checkpoints").glob("checkpoint-*"), key=lambda path: len(path.name))
    assert (first.name, last.name) == ("checkpoint-5", "checkpoint-10")
    assert (first / "optimizer.pt").exists()
    assert not (last / "optimizer.pt").exists()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (RuntimeError("a metric that raises"), "RuntimeError: a metric that raises"),
        (RuntimeError("CUDA out of memory. Tried"), "out of memory while scoring: lower --eval-batch-size (CUDA out "),
    ],
)
def test_what_stopped_it_what_is_kept_and_how_to_go_on_is_one_line(error, told, config):
    with pytest.raises(RunStopped) as stopped:
        run(config, callbacks=[WhenScored(error)])
    kept = Path(config.output) / "checkpoints" / "checkpoint-10"
    line = str(stopped.value)
    assert line.startswith(told)
    assert line.endswith(
        f"; all steps are trained, and the last good checkpoint is {kept}: the same command with --resume goes on with "
        "the scoring"
    )
    lines: list[str] = []
    assert run(replace(config, eval_batch_size=7), resume=True, tell=lines.append)["config"]["eval_batch_size"] == 7
    assert "resuming with the scoring, after step 10" in lines


def test_with_scores_on_the_way_the_last_step_is_scored_once(config):
    steps = Steps()
    run(replace(config, eval_steps=5), callbacks=[steps])
    assert steps.scored == 3  # before, after step 5, at the end
