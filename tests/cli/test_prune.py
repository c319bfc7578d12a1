"""`mgpp prune` and `mgpp evaluate`: one command does it all, and every mistake is one line and an exit code."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("datasets")

import mgpp
from mgpp.cli import main
from mgpp.cli import train as command
from mgpp.cli.asked import read_setting
from mgpp.methods import to_dict
from tests.tiny import PRUNABLE, At, poison, reviews, write_csv, write_jsonl

SHORT = ["--max-steps=10", "--batch-size=8", "--lr=5e-3", "--logging-steps=1", "--save-steps=3", "--device=cpu"]
RAMP = ["--set=start=2", "--set=end=8", "--set=every=2"]


@pytest.fixture
def prune(tiny_bert, tiny_reviews, tmp_path):
    """mgpp prune on the tiny model; keyword arguments stand in for the positional ones."""

    def call(*options: str, model: object = tiny_bert, data: object = tiny_reviews, output: str = "out") -> int:
        place = ["--output", str(tmp_path / output)]
        return main(["prune", str(model), str(data), *place, *SHORT, *options])

    return call


def refusal(code: int, capsys: pytest.CaptureFixture, *, expected: int = 2) -> str:
    """The one line on stderr; a plan may have been told before it."""
    out, err = capsys.readouterr()
    assert code == expected, err
    assert out == ""
    assert "Traceback" not in err
    told = [line for line in err.splitlines() if line.startswith("mgpp: ")]
    assert len(told) == 1
    assert err.splitlines()[-1] == told[0]
    return told[0]


def test_one_command_prunes_and_prints_a_summary(prune, tmp_path, capsys):
    assert prune("--sparsity", "0.75", *RAMP) == 0
    out, err = capsys.readouterr()
    assert "MGPP (recommended) at 0.75" in out
    assert "with MGPP (recommended): 3,072" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "3,072 / 4,096" in out
    assert "pruning 4,096 weights to sparsity 0.75 between steps 2 and 8, every 2" in err
    assert "step 10/10" in err
    assert "sparsity 0.75" in err
    assert (tmp_path / "out" / "result.json").exists()


def test_a_run_that_prunes_nothing_says_so(prune, capsys):
    assert prune("--sparsity", "0", *RAMP) == 0
    assert "nothing is pruned at sparsity 0: give --sparsity, for example 0.9\n" in capsys.readouterr().err
    assert prune("--method", "none", output="dense") == 0
    assert "nothing is pruned" not in capsys.readouterr().err


def test_a_ramp_without_an_event_on_its_way_is_told_once(prune, capsys):
    assert prune("--sparsity", "0.75", "--set", "start=2", "--set", "end=8", "--set", "every=9") == 0
    assert capsys.readouterr().err.count("no event falls between start=2 and end=8 with every=9") == 1
    assert prune("--sparsity", "0.75", *RAMP, output="stepwise") == 0
    assert "no event" not in capsys.readouterr().err


def test_a_method_whose_events_take_long_says_what_they_compute(prune, capsys):
    few = ["--set", "num_grads=2", "--set", "batch_size=4", "--set", "block=8"]
    assert prune("--sparsity", "0.75", "--method", "obert", *RAMP, *few) == 0
    told = capsys.readouterr().err
    assert "every event computes 2 gradients of 4 rows each (num_grads, batch_size) of its own\n" in told


def test_a_model_need_not_be_scored_before_training(prune, capsys):
    assert prune("--method", "none", "--no-score-before") == 0
    out, err = capsys.readouterr()
    assert "before training: not scored" in err
    assert [line.split("│")[2].strip() for line in out.splitlines() if "accuracy" in line] == ["–"]


def test_json_prints_one_object_and_nothing_else(prune, tmp_path, capsys):
    assert prune("--sparsity", "0.75", *RAMP, "--json") == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == json.loads((tmp_path / "out" / "result.json").read_text())


def test_evaluate_agrees_with_the_result(prune, tiny_reviews, tmp_path, capsys):
    assert prune("--sparsity", "0.75", *RAMP, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    command = ["evaluate", str(tmp_path / "out"), str(tiny_reviews), "--device", "cpu"]
    assert main([*command, "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert scored["metrics"] == result["after"]
    assert (scored["zeros"], scored["sparsity"]) == (result["zeros"], result["sparsity"])
    assert main(command) == 0
    assert "3,072 / 4,096" in capsys.readouterr().out


def test_method_none_fine_tunes_without_pruning(prune, capsys):
    assert prune("--method", "none", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["method"], result["zeros"], result["prunable"]) == (None, 0, PRUNABLE)


@pytest.mark.parametrize(("options", "expected"), [([], mgpp.recommended), (["--method", "mgpp"], mgpp.MGPP)])
def test_without_a_method_it_is_the_recommended_form_and_with_mgpp_the_papers(options, expected, prune, capsys):
    assert prune("--sparsity", "0.75", *RAMP, *options, "--json") == 0
    method = json.loads(capsys.readouterr().out)["method"]
    assert method == to_dict(expected(sparsity=0.75, start=2, end=8, every=2))


def test_every_setting_of_a_method_can_be_set(prune, capsys):
    more = ["--set", "spike_var=1e-9", "--set", "slab_var=0.1", "--set", "start=0.1", "--set", "end=1ep"]
    assert prune("--sparsity", "0.5", *more, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["method"]["spike_var"], result["method"]["end"]) == (1e-9, "1ep")
    assert (result["schedule"]["start"], result["schedule"]["end"]) == (1, 6)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("start=10", ("start", 10)),
        ("start=0.1", ("start", 0.1)),
        ("end=2ep", ("end", "2ep")),
        ("score=curvature", ("score", "curvature")),
        ("end = 1.5 ep", ("end", "1.5 ep")),
        ("hold=true", ("hold", True)),
        ("hold=False", ("hold", False)),
        ("spike_var=1e-9", ("spike_var", 1e-9)),
        ("structure=2:4", ("structure", "2:4")),
        ("structure = 32x1", ("structure", "32x1")),
    ],
)
def test_values_are_read_as_toml(setting, expected):
    key, value = read_setting(setting)
    assert (key, value) == expected
    assert type(value) is type(expected[1])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--sparsity", "1.5", *RAMP], "sparsity=1.5: the fraction of weights to remove"),
        (["--sparsity", "nan", *RAMP], "sparsity=nan: the fraction of weights to remove"),
        (["--sparsity", "-0.1", *RAMP], "sparsity=-0.1: the fraction of weights to remove"),
        (["--sparsity", "much"], "--sparsity"),
        (["--sparsity", "90%"], "'90%', did you mean 0.9?"),
        (["--sparsity", "0.5", "--train-split", "validatoin"], "it has train, validation (--train-split)"),
        (["--sparsity", "0.5", "--eval-split", "dev"], "it has train, validation (--eval-split)"),
        (["--sparsity", "0.5", "--set", "sparsity=0.25"], "--sparsity 0.5 and --set sparsity=0.25: give one of them"),
        (RAMP, "how many weights should go? give --sparsity"),
        (["--sparsity", "0.5", "--set", "end=3500"], "end=3500 is past the run's last step 10"),
        (["--sparsity", "0.5", "--set", "start=8", "--set", "end=8"], "start=8 is not before end=8"),
        (["--sparsity", "0.5", "--set", "spike_var"], "write it as KEY=VALUE"),
        (["--sparsity", "0.5", "--set", "hold=TRUE"], "'TRUE' is no number, word, true, false or epochs (2ep)"),
        (["--sparsity", "0.5", "--set", "spike_var=abc"], "spike_var='abc' is no number"),
        (["--sparsity", "0.5", "--set", "decoupled=yes"], "decoupled='yes': it is true or false"),
        (["--sparsity", "0.5", "--optimizer", "sgd"], "reads Adam's second moment, one number a weight, and SGD keeps"),
        (
            ["--sparsity", "0.5", "--optimizer", "torch"],
            "optimizer=torch: it must be mgpp, or a name that transformers'",
        ),
        (["--sparsity", "0.5", "--set", "score=beauty"], "score='beauty' is not one of magnitude, curvature"),
        (["--sparsity", "0.5", "--set", "spyke_var=1e-9"], "mgpp has no setting spyke_var: it has sparsity"),
        (["--sparsity", "0.9", "--set", "structure=2:4"], 'structure="2:4" keeps 2 of every 4 weights'),
        (["--sparsity", "0.9", "--set", "structure=tall"], "structure='tall': write"),
        (["--set", "structure=2x1"], "sparsity is missing"),
        (["--sparsity", "0.5", "--method", "losparse", "--set", "structure=2:4"], "LoSparse removes whole rows"),
        (["--sparsity", "0.5", "--set", 'slab_var="wide"'], "is no number"),
        (["--sparsity", "0.5", "--method", "magic"], "method='magic' is not one of mgpp, gmp, l2"),
        (["--sparsity", "0.5", "--method", "recomended"], "; did you mean recommended?"),
        (["--sparsity", "0.5", "--method", "none"], "method none prunes nothing"),
        (["--sparsity", "0.5", *RAMP, "--max-steps", "0"], "max_steps=0: it must be at least 1"),
        (["--sparsity", "0.5", *RAMP, "--include", "no.such.*"], "include='no.such.*' matches none"),
        (["--sparsity", "0.5", *RAMP, "--label", "stars"], "no column 'stars': it has text, label"),
        (["--sparsity", "0.5", *RAMP, "--sparsty", "1"], "No such option: --sparsty"),
        (["--sparsity", "0.5", *RAMP, "--resume"], "there is no run in"),
    ],
)
def test_a_mistake_in_the_options_is_one_line_and_writes_nothing(options, told, prune, tmp_path, capsys):
    line = refusal(prune(*options), capsys)
    assert told in line
    assert not (tmp_path / "out").exists()


def without_weights(folder: Path) -> dict[str, Path]:
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text('{"model_type": "bert"}')
    return {"model": folder / "model"}


def empty_data(folder: Path) -> dict[str, Path]:
    (folder / "rows.csv").write_text("text,label\n")
    return {"data": folder / "rows.csv"}


def mixed_labels(folder: Path) -> dict[str, Path]:
    return {"data": write_jsonl(folder / "rows.jsonl", [{"text": "a", "label": 0}, {"text": "b", "label": "one"}])}


def no_labels(folder: Path) -> dict[str, Path]:
    return {"data": write_csv(folder / "rows.csv", [{"text": row["text"]} for row in reviews(4)])}


def unreachable_model(folder: Path) -> dict[str, str]:
    return {"model": "nobody/no-such-model"}


def unreachable_data(folder: Path) -> dict[str, str]:
    return {"data": "nobody/no-such-data"}


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (without_weights, "holds no weights"),
        (empty_data, "rows.csv"),
        (mixed_labels, "label"),
        (no_labels, "train has no column 'label': it has text"),
        (unreachable_model, "is no local folder, and fetching its config from the Hugging Face hub failed"),
        (unreachable_data, "is no local file or folder, and loading it from the Hugging Face hub failed"),
    ],
)
def test_a_mistake_in_model_or_data_is_one_line_and_writes_nothing(make, told, prune, tmp_path, capsys):
    line = refusal(prune("--sparsity", "0.5", *RAMP, **make(tmp_path)), capsys)
    assert told in line
    assert not (tmp_path / "out").exists()


def test_a_file_where_the_folder_would_be_made_is_named_before_anything_is_read(prune, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    line = refusal(prune("--sparsity", "0.75", *RAMP, "--output", str(tmp_path / "file" / "out")), capsys)
    assert f"{tmp_path / 'file'} is a file: give a folder for the output" in line
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_holds_another_run_is_refused_unless_overwritten(prune, tmp_path, capsys):
    assert prune("--method", "none") == 0
    before = (tmp_path / "out" / "result.json").read_bytes()
    capsys.readouterr()
    line = refusal(prune("--sparsity", "0.75", *RAMP), capsys)
    assert "holds a finished run: overwrite it (--overwrite), or choose another folder" in line
    assert (tmp_path / "out" / "result.json").read_bytes() == before
    assert prune("--sparsity", "0.75", *RAMP, "--overwrite") == 0


def kill_at(step: int, tiny_bert: Path, tiny_reviews: Path, output: Path) -> None:
    """A process that dies in the middle of a step, as by a power cut."""
    command = ["prune", str(tiny_bert), str(tiny_reviews), "--output", str(output), *SHORT, "--sparsity", "0.75", *RAMP]
    script = f"""
import os, mgpp.pruner
after_step = mgpp.pruner.Pruner._after_step
def die(self, *args, **kwargs):
    after_step(self, *args, **kwargs)
    if self.t == {step}:
        os._exit(9)
mgpp.pruner.Pruner._after_step = die
import mgpp
from mgpp.cli import main
main({command!r})
"""
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert finished.returncode == 9, finished.stderr.decode()


def test_a_killed_process_resumes_to_the_same_bits(prune, tiny_bert, tiny_reviews, tmp_path, capsys):
    options = ["--sparsity", "0.75", *RAMP]
    assert prune(*options, output="whole") == 0
    kill_at(8, tiny_bert, tiny_reviews, tmp_path / "out")
    capsys.readouterr()
    line = refusal(prune(*options), capsys)
    assert "holds an unfinished run: go on with it (--resume), begin anew (--overwrite), or choose" in line
    line = refusal(prune(*options, "--resume", "--lr", "1e-3"), capsys)
    assert "learning_rate: was 0.005, now 0.001" in line
    assert prune(*options, "--resume") == 0
    assert "resuming after step 6" in capsys.readouterr().err
    for name in ("model.safetensors", "records.jsonl"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.fixture
def during_the_run(monkeypatch):
    """Lets a test do something at the end of a step of the run that the command starts."""

    def arrange(step: int, act) -> None:
        original = command.run

        def run(*args, callbacks=(), **kwargs):
            return original(*args, callbacks=[*callbacks, At(step, act)], **kwargs)

        monkeypatch.setattr(command, "run", run)

    return arrange


def test_a_loss_that_turns_nan_is_one_line_and_exit_code_1(prune, during_the_run, capsys):
    during_the_run(4, poison)
    line = refusal(prune("--sparsity", "0.75", *RAMP), capsys, expected=1)
    assert "the gradient of step 5 is nan" in line
    assert "checkpoint-3" in line


def test_ctrl_c_is_one_line_that_says_how_to_resume(prune, during_the_run, capsys):
    def interrupt(model):
        raise KeyboardInterrupt

    during_the_run(4, interrupt)
    line = refusal(prune("--sparsity", "0.75", *RAMP), capsys, expected=130)
    assert line.startswith("mgpp: interrupted; the last good checkpoint is ")
    assert line.endswith("the same command with --resume goes on from there")


def test_sigterm_is_what_ctrl_c_is_and_says_how_to_resume(prune, during_the_run, capsys):
    assert threading.current_thread() is threading.main_thread()  # else it would end the tests
    during_the_run(4, lambda model: os.kill(os.getpid(), signal.SIGTERM))
    line = refusal(prune("--sparsity", "0.75", *RAMP), capsys, expected=130)
    assert line.startswith("mgpp: interrupted; the last good checkpoint is ")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_bug_is_one_line_unless_debug_asks_for_more(prune, monkeypatch, capsys):
    def broken(*args, **kwargs):
        raise KeyError("oops")

    monkeypatch.setattr(command, "run", broken)
    line = refusal(prune("--sparsity", "0.75", *RAMP), capsys, expected=1)
    assert "KeyError: 'oops'" in line
    assert "--debug" in line
    with pytest.raises(KeyError):
        prune("--sparsity", "0.75", *RAMP, "--debug")


def test_version_and_help(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("mgpp ")
    assert main(["prune", "--help"]) == 0
    assert "--sparsity" in capsys.readouterr().out
    assert main([]) == 0
    assert "prune" in capsys.readouterr().out
    assert main(["prnue"]) == 2
    assert "mgpp: No such command 'prnue'" in capsys.readouterr().err
