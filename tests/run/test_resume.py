"""A run that was stopped, however rudely, goes on to the same bits; a folder that holds another run is safe."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("datasets")

import mgpp
from mgpp.run import RunConfig, RunInterrupted, run
from mgpp.run.folder import RunFolder
from tests.tiny import RAMP, At, save_tiny_decoder


class Killed(BaseException):
    """Passes every handler, so that nothing is tidied up: what a power cut leaves."""


def stop_with(error: type[BaseException]):
    def act(model):
        raise error

    return act


def outcome(config: RunConfig) -> tuple[bytes, str, dict]:
    output = Path(config.output)
    result = json.loads((output / "result.json").read_text())
    return (output / "model.safetensors").read_bytes(), (output / "records.jsonl").read_text(), result["after"]


@pytest.mark.parametrize(
    ("stop", "error", "method", "more"),
    [
        (4, KeyboardInterrupt, mgpp.MGPP(**RAMP), {}),
        (6, Killed, mgpp.MGPP(**RAMP), {}),
        (7, Killed, mgpp.GMP(**RAMP, hold=True), {"group_by_length": True}),
        (9, KeyboardInterrupt, None, {}),
        (8, Killed, mgpp.MGPP(**RAMP), {"accumulate": 2, "eval_steps": 4}),
        (10, Killed, mgpp.MGPP(**RAMP), {}),
        (5, Killed, mgpp.MGPP(**RAMP), {"score_before": False}),
        (7, Killed, mgpp.recommended(**RAMP), {"weight_decay": 0.1}),
        (7, Killed, mgpp.recommended(**RAMP), {"optimizer": "adamw_torch"}),
    ],
)
def test_a_stopped_run_resumes_to_the_same_bits_and_records(stop, error, method, more, config, tmp_path):
    config = replace(config, method=method, **more)
    whole = replace(config, output=str(tmp_path / "whole"))
    run(whole)
    with pytest.raises((RunInterrupted, Killed)):
        run(config, callbacks=[At(stop, stop_with(error))])
    result = run(config, resume=True)
    assert outcome(config) == outcome(whole)
    assert result["before"] == json.loads((tmp_path / "whole" / "result.json").read_text())["before"]


@pytest.mark.parametrize("method", [mgpp.PLATON(**RAMP), None], ids=["pruned", "dense"])
def test_experts_that_a_checkpoint_holds_one_by_one_resume_too(method, config, tiny_corpus, tmp_path):
    """The Trainer takes a checkpoint's tensors by name, and leaves the model's stacks of experts as they were."""
    model = save_tiny_decoder(tmp_path / "mixtral", kind="mixtral")
    config = replace(
        config, method=method, model=str(model), data=str(tiny_corpus), task="clm", max_length=32, batch_size=4
    )
    whole = replace(config, output=str(tmp_path / "whole"))
    run(whole)
    with pytest.raises(Killed):
        run(config, callbacks=[At(7, stop_with(Killed))])
    run(config, resume=True)
    assert outcome(config) == outcome(whole)


def test_a_run_killed_before_its_first_checkpoint_starts_anew(config, tmp_path):
    whole = replace(config, output=str(tmp_path / "whole"))
    run(whole)
    with pytest.raises(Killed):
        run(config, callbacks=[At(2, stop_with(Killed))])
    run(config, resume=True)
    assert outcome(config) == outcome(whole)


def test_a_checkpoint_that_was_not_finished_is_passed_over(config, tmp_path):
    whole = replace(config, output=str(tmp_path / "whole"))
    run(whole)
    with pytest.raises(Killed):
        run(config, callbacks=[At(7, stop_with(Killed))])
    (Path(config.output) / "checkpoints" / "checkpoint-6" / "whole.json").unlink()
    assert RunFolder(config.output).newest_checkpoint().name == "checkpoint-3"
    run(config, resume=True)
    assert outcome(config) == outcome(whole)


def test_a_run_stopped_twice_counts_all_its_seconds(config):
    for step in (4, 8):
        with pytest.raises(RunInterrupted):
            run(config, resume=step > 4, callbacks=[At(step, stop_with(KeyboardInterrupt))])
    marker = json.loads((RunFolder(config.output).newest_checkpoint() / "whole.json").read_text())
    assert marker["step"] == 6
    assert run(config, resume=True)["seconds"] > marker["seconds"] > 0


@pytest.fixture
def interrupted(config) -> RunConfig:
    with pytest.raises(RunInterrupted, match=r"checkpoint-3: the same command with --resume goes on from there"):
        run(config, callbacks=[At(4, stop_with(KeyboardInterrupt))])
    return config


def test_another_config_is_refused_with_the_difference(interrupted):
    with pytest.raises(ValueError, match=r"is another one \(learning_rate: was 0.005, now 0.001\)"):
        run(replace(interrupted, learning_rate=1e-3), resume=True)
    with pytest.raises(ValueError, match=r"is another one \(sparsity: was 0.75, now 0.5\)"):
        run(replace(interrupted, method=mgpp.MGPP(**{**RAMP, "sparsity": 0.5})), resume=True)


def test_a_folder_that_was_moved_may_be_resumed(interrupted, tmp_path):
    Path(interrupted.output).rename(tmp_path / "moved")
    moved = replace(interrupted, output=str(tmp_path / "moved"))
    assert run(moved, resume=True)["steps"] == 10


def test_a_folder_that_holds_a_run_is_refused(interrupted):
    with pytest.raises(ValueError, match=r"holds an unfinished run: go on with it \(--resume\)"):
        run(interrupted)
    run(interrupted, resume=True)
    before = outcome(interrupted)
    with pytest.raises(ValueError, match=r"holds a finished run: overwrite it \(--overwrite\)"):
        run(interrupted)
    with pytest.raises(ValueError, match="is finished"):
        run(interrupted, resume=True)
    assert outcome(interrupted) == before


def test_overwriting_replaces_the_run_and_nothing_else(interrupted):
    run(interrupted, overwrite=True)
    note = Path(interrupted.output) / "my-notes.txt"
    note.write_text("keep")
    run(replace(interrupted, method=None), overwrite=True)
    assert note.read_text() == "keep"
    assert outcome(interrupted)[1].startswith('{"event": "start", "step": 0, "method": null, "steps": 10}')


def test_a_folder_of_other_files_is_never_written_to(config):
    folder = Path(config.output)
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(ValueError, match=r"holds files that are no run's, thesis.tex among them"):
            run(config, overwrite=overwrite)
    assert [file.name for file in folder.iterdir()] == ["thesis.tex"]


def test_there_must_be_a_run_to_resume(config):
    with pytest.raises(ValueError, match=r"there is no run in .* to resume"):
        run(config, resume=True)
    with pytest.raises(ValueError, match="contradict"):
        run(config, resume=True, overwrite=True)
    assert not Path(config.output).exists()
