"""`mgpp presets`, and `mgpp prune --preset`: a row is typed, and any option overrides it."""

import json

import pytest

pytest.importorskip("datasets")

from mgpp.cli import main
from mgpp.cli import train as command
from tests.cli.test_prune import refusal

MINE = """
source = "my notes"
examples = 480

[run]
model = "{model}"
data = "{data}"
batch_size = 8
learning_rate = 5e-3
epochs = 2
logging_steps = 1
save_steps = 3
device = "cpu"

[method]
method = "mgpp"
every = 2

[sparsity."0.75"]
method.start = 2
method.end = 8

[sparsity."0.5"]
method.start = 10
method.end = 120
"""


@pytest.fixture
def mine(tiny_bert, tiny_reviews, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(MINE.format(model=tiny_bert, data=tiny_reviews), encoding="utf-8")
    return str(path)


@pytest.fixture
def prune(tmp_path):
    def call(*options: str) -> int:
        return main(["prune", "--output", str(tmp_path / "out"), *options])

    return call


@pytest.fixture
def asked(monkeypatch):
    """The config that would have been run."""
    seen = []

    def run(config, **kwargs):
        seen.append(config)
        raise ValueError("not today")

    monkeypatch.setattr(command, "run", run)
    return seen


def test_the_list_names_every_preset_with_its_source(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["presets"]) == 0
    out = capsys.readouterr().out
    assert "deberta-v3-base/mnli" in out
    assert "Table A2, MNLI" in out
    assert main(["presets", "--json"]) == 0
    found = {line["name"]: line for line in json.loads(capsys.readouterr().out)}
    assert found["deberta-v3-base/l2-mrpc"]["method"] == "l2"
    assert found["bert-base/sst2"]["sparsities"] == [0.8, 0.9]


def test_show_prints_resolved_numbers(capsys):
    assert main(["presets", "show", "deberta-v3-base/cola", "--sparsity", "0.9", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    (resolved,) = shown["resolved"]
    assert resolved["length"]["total_steps"] == 15 * 268
    assert resolved["schedule"]["end"] == 3500
    assert main(["presets", "show", "deberta-v3-base/cola"]) == 0
    out = capsys.readouterr().out
    assert "the paper's 5 are 1340 steps" in out
    assert "4020" in out


def test_copy_makes_a_file_of_the_users_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["presets", "copy", "bert-base/sst2"]) == 0
    assert "mgpp prune --preset ./bert-base-sst2.toml" in capsys.readouterr().out
    own = tmp_path / "bert-base-sst2.toml"
    assert main(["presets", "show", "./bert-base-sst2.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"] == "Table A3, SST-2"
    own.write_text("mine now")
    assert "is there already" in refusal(main(["presets", "copy", "bert-base/sst2"]), capsys)
    assert own.read_text() == "mine now"
    assert main(["presets", "copy", "bert-base/sst2", "--overwrite"]) == 0
    assert main(["presets", "copy", "bert-base/sst2", str(tmp_path / "b.toml")]) == 0
    assert own.read_text() == (tmp_path / "b.toml").read_text() != "mine now"
    capsys.readouterr()
    assert "ends in .toml" in refusal(main(["presets", "copy", "bert-base/sst2", "b.txt"]), capsys)


def test_a_row_is_run_as_typed(prune, asked):
    prune("--preset", "deberta-v3-base/mnli", "--sparsity", "0.9")
    config = asked[0]
    assert (config.model, config.data, config.task) == ("microsoft/deberta-v3-base", "nyu-mll/glue/mnli", "mnli")
    assert (config.learning_rate, config.epochs, config.method.sparsity) == (8e-5, 8, 0.9)
    assert (config.method.start, config.method.end, config.method.spike_var) == (5500, 75500, 1e-10)


def test_any_option_overrides_the_preset(prune, asked):
    words = ["--preset", "deberta-v3-base/mnli", "--sparsity", "0.9", "--data", "../mnli", "--model", "here"]
    prune(*words, "--lr", "1e-3", "--seed", "3", "--set", "end=60000", "--set", "slab_var=0.1", "--warm-up", "0.1")
    config = asked[0]
    assert (config.model, config.data, config.learning_rate, config.seed) == ("here", "../mnli", 1e-3, 3)
    assert (config.method.start, config.method.end, config.method.slab_var, config.warm_up) == (5500, 60000, 0.1, 0.1)


def test_model_and_data_may_stand_as_arguments_too(prune, asked):
    prune("here", "rows", "--preset", "bert-base/qnli", "-s", "0.9")
    prune("here", "--preset", "bert-base/qnli", "-s", "0.9")
    assert [(config.model, config.data) for config in asked] == [("here", "rows"), ("here", "nyu-mll/glue/qnli")]


def test_a_structure_that_is_a_sparsity_needs_no_other(prune, asked, tmp_path):
    prune("--preset", "deberta-v3-base/mnli", "--set", "structure=2:4")
    assert (asked[0].method.sparsity, asked[0].method.structure, asked[0].learning_rate) == (0.5, "2:4", 5e-5)
    (tmp_path / "quarter.toml").write_text(
        '[run]\nmodel = "m"\ndata = "d"\n[method]\nmethod = "gmp"\nstructure = "1:4"\n'
    )
    prune("--preset", str(tmp_path / "quarter.toml"))
    assert asked[1].method.sparsity == 0.75


def test_other_methods_run_on_the_rows_ramp(prune, asked):
    prune("--preset", "deberta-v3-base/mnli", "--sparsity", "0.9", "--method", "platon")
    prune("--preset", "deberta-v3-base/mnli", "--method", "none")
    assert (type(asked[0].method).__name__, asked[0].method.start, asked[0].method.end) == ("PLATON", 5500, 75500)
    assert (asked[1].method, asked[1].learning_rate) == (None, 5e-5)


def test_a_file_of_the_users_own_runs_end_to_end(mine, prune, tmp_path, capsys):
    assert prune("--preset", mine, "--sparsity", "0.75", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["steps"], result["sparsity"]) == (12, 0.75)
    assert (result["schedule"]["start"], result["schedule"]["end"]) == (2, 8)
    assert result["config"]["learning_rate"] == 5e-3


def test_a_sparsity_beside_the_rows_is_a_note(mine, prune, capsys):
    assert prune("--preset", mine, "--sparsity", "0.7") == 0
    assert "sparsity 0.7 is none of preset" in capsys.readouterr().err


def test_a_ramp_that_does_not_fit_the_data_is_refused_with_the_way_to_keep_its_shape(mine, prune, tmp_path, capsys):
    line = refusal(prune("--preset", mine, "--sparsity", "0.5"), capsys)
    assert "end=120 is past the run's last step 12" in line
    assert "was written for 480 examples: --set start=0.0833 --set end=1.0 keeps its ramp's shape" in line
    assert not (tmp_path / "out").exists()
    assert prune("--preset", mine, "--sparsity", "0.5", "--set", "start=0.0833", "--set", "end=1.0") == 0


def test_a_length_that_the_model_cannot_read_is_refused_before_training(mine, prune, tmp_path, capsys):
    text = (tmp_path / "mine.toml").read_text().replace("epochs = 2", "epochs = 2\nmax_length = 512")
    (tmp_path / "mine.toml").write_text(text)
    line = refusal(prune("--preset", mine, "--sparsity", "0.75"), capsys)
    assert "max_length=512 is more than the 128 tokens that the model" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--preset", "deberta-v3-base/mnl", "-s", "0.9"], "did you mean deberta-v3-base/mnli"),
        (["--preset", "deberta-v3-base/mnli"], "needs --sparsity, one of 0.8, 0.85, 0.9"),
        (["--preset", "deberta-v3-base/mnli", "-s", "90"], "sparsity=90.0: the fraction of weights to remove"),
        (["--preset", "deberta-v3-base/mnli", "-s", "0.9", "--set", "spike=1"], "mgpp has no setting spike"),
        (["--preset", "deberta-v3-base/mnli", "--method", "none", "-s", "0.9"], "method none prunes nothing"),
        (
            ["m", "--preset", "bert-base/mnli", "-s", "0.9", "--model", "n"],
            "two models, m and n: give MODEL or --model",
        ),
        (["--preset", "./absent.toml", "-s", "0.9"], "preset ./absent.toml is not there"),
        (["--sparsity", "0.9"], "which model? give MODEL, or a preset"),
        (["m", "--sparsity", "0.9"], "which data? give DATA, or a preset"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(options, told, prune, tmp_path, capsys):
    assert told in refusal(prune(*options), capsys)
    assert not (tmp_path / "out").exists()
