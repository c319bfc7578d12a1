"""`mgpp sweep`: what is typed becomes the sweep that was meant, and a mistake is one line."""

import json

import pytest

pytest.importorskip("datasets")
pytest.importorskip("optuna")

from mgpp.cli import main
from mgpp.cli import sweep as command
from mgpp.cli.sweep import read_grid
from mgpp.presets import load_preset
from mgpp.sweep import Range, paper_grid
from tests.cli.test_presets import mine  # noqa: F401
from tests.cli.test_prune import refusal

BEST = {"number": 3, "value": 0.9}
RESULTS = {
    "study": "mgpp",
    "metric": "accuracy",
    "scored_on": "as asked",
    "swept": ["learning_rate"],
    "best": BEST,
    "best_file": "out/best.toml",
    "trials": [{"number": 3, "state": "finished", "value": 0.9, "params": {"learning_rate": 1e-3}, "same_as": None}],
}


@pytest.fixture
def asked(monkeypatch):
    """The sweep that the command would have run, and how."""
    seen = {}

    def sweep(asked, search, **kwargs):
        seen.update(asked=asked, search=search, **kwargs)
        return RESULTS

    monkeypatch.setattr(command.sweeping, "sweep", sweep)
    return seen


def call(*options: str) -> int:
    return main(["sweep", "--output", "out", *options])


def test_options_become_a_sweep(asked, capsys):
    options = ["--grid", "learning_rate=1e-5,2e-5", "-g", "method.spike_var=1e-10..1e-8", "--sparsity", "0.9"]
    options += ["--sampler", "random", "--trials", "7", "--pruner", "none", "--storage", "x.db", "--study", "mine"]
    assert call("model", "data", *options, "--workers", "3", "--epochs", "2", "--keep-models") == 0
    made, search = asked["asked"], asked["search"]
    assert made.grid == {"learning_rate": [1e-5, 2e-5], "method.spike_var": Range(1e-10, 1e-8)}
    assert (made.settings.run["model"], made.settings.run["epochs"]) == ("model", 2)
    assert (search.sampler, search.trials, search.pruner, search.storage) == ("random", 7, "none", "x.db")
    assert (search.study, asked["workers"], asked["keep_models"]) == ("mine", 3, True)
    out = capsys.readouterr().out
    assert "0.9000" in out
    assert "the best is trial 3: mgpp prune --preset out/best.toml" in out


def test_by_default_the_papers_values_are_tried(asked):
    assert call("model", "data", "--sparsity", "0.9") == 0
    assert asked["asked"].grid == paper_grid("mgpp")
    assert call("model", "data", "--sparsity", "0.9", "--method", "l2") == 0
    assert asked["asked"].grid == paper_grid("l2")


def test_a_presets_ramp_is_taken_in_shares_of_its_run(asked, capsys):
    assert call("--preset", "deberta-v3-base/mrpc", "--sparsity", "0.9", "--set", "start=0.2") == 0
    method = asked["asked"].settings.method
    assert (method["start"], method["end"], method["every"]) == (0.2, 1.0, 10)
    assert asked["examples"] == 3668
    assert "in shares of the run, for trials differ in their steps: end 1" in capsys.readouterr().err


def test_json_prints_one_object_and_nothing_else(asked, capsys):
    assert call("model", "data", "-s", "0.9", "--json") == 0
    assert json.loads(capsys.readouterr().out) == RESULTS


def test_no_finished_trial_makes_exit_code_1(asked, monkeypatch, capsys):
    monkeypatch.setitem(RESULTS, "best", None)
    monkeypatch.setitem(RESULTS, "best_file", None)
    assert call("model", "data", "-s", "0.9") == 1


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("learning_rate=1e-5, 2e-5", ("learning_rate", [1e-5, 2e-5])),
        ("batch_size=8..64", ("batch_size", Range(8, 64))),
        ("method.score=magnitude,curvature", ("method.score", ["magnitude", "curvature"])),
        ("method.decoupled=true,false", ("method.decoupled", [True, False])),
        ("method.end=2ep,0.7", ("method.end", ["2ep", 0.7])),
    ],
)
def test_values_are_lists_or_ranges(text, meant):
    assert read_grid(text) == meant


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["m", "d", "-s", "0.9", "--grid", "learning_rate"], "write it as KEY=V1,V2 or KEY=LOW..HIGH"),
        (["m", "d", "-s", "0.9", "--grid", "learning_rate=a..b"], "a range has two numbers, LOW..HIGH"),
        (["m", "d", "-s", "0.9", "--grid", "rate=1"], "rate cannot be swept"),
        (["m", "d", "-s", "0.9", "--grid", "spike_var=1"], "write it as method.spike_var"),
        (["m", "d", "-s", "0.9", "--trials", "0"], "trials=0: at least 1"),
        (["m", "d", "-s", "0.9", "--evaluations", "0"], "evaluations=0: at least 1"),
        (["m", "d", "-s", "0.9", "--sampler", "magic"], "sampler='magic' is not one of"),
        (["m", "d", "-s", "0.9", "--workers", "0"], "workers=0: at least 1"),
        (["m", "d"], "how many weights should go?"),
        (["-s", "0.9"], "which model? give MODEL, or a preset"),
        (["m", "./absent", "-s", "0.9"], "./absent is not there"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(options, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert told in refusal(call(*options), capsys)
    assert not (tmp_path / "out").exists()


def test_a_sweep_of_a_preset_ends_in_a_preset_that_prunes(mine, tmp_path, capsys):  # noqa: F811
    words = ["--preset", mine, "--sparsity", "0.75", "--grid", "learning_rate=1e-2", "--sampler", "grid"]
    assert main(["sweep", "--output", str(tmp_path / "out"), *words, "--json"]) == 0
    out, err = capsys.readouterr()
    results = json.loads(out)
    assert [row["state"] for row in results["trials"]] == ["finished"], err
    assert results["trials"][0]["sparsity"] == 0.75
    assert "as asked: 5 of 48 training rows are held out" in results["scored_on"]
    best = load_preset(results["best_file"])
    assert best.settings().run["learning_rate"] == results["best"]["params"]["learning_rate"]
    assert main(["prune", "--preset", results["best_file"], "-o", str(tmp_path / "final"), "--json"]) == 0
    final = json.loads(capsys.readouterr().out)
    assert (final["sparsity"], final["eval_rows"]) == (0.75, 32)
