"""A preset is found by name or path, says what it runs at each sparsity, and names its mistakes first."""

import json
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from mgpp.methods import GMP, MGPP, recommended
from mgpp.presets import Settings, describe, load_preset, names, read_text, to_toml

FILE = """
source = "my notes"
examples = 1000

[run]
model = "m"
data = "d"
batch_size = 10
epochs = 2

[method]
method = "mgpp"
start = 20
end = 100
slab_var = 0.1

[sparsity."0.8"]
learning_rate = 1e-5

[sparsity."0.9"]
learning_rate = 2e-5
method.end = 150
"""


@pytest.fixture
def written(tmp_path):
    def write(text: str, name: str = "mine.toml") -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


def test_shipped_presets_are_read_through_the_package():
    folder = Path(str(files("mgpp.presets")))
    assert {f"{name}.toml" for name in names()} == {str(path.relative_to(folder)) for path in folder.rglob("*.toml")}
    assert len(names()) > 25


def test_a_wheel_carries_them():
    project = Path(__file__).parents[2] / "pyproject.toml"
    patterns = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]["mgpp"]
    package = Path(str(files("mgpp")))
    carried = {path for pattern in patterns for path in package.glob(pattern)}
    assert {package / "presets" / f"{name}.toml" for name in names()} <= carried


def test_each_sparsity_has_its_own_numbers(written):
    preset = load_preset(written(FILE))
    low, high = preset.config(0.8), preset.config(0.9)
    assert (low.learning_rate, low.method.end, low.method.sparsity) == (1e-5, 100, 0.8)
    assert (high.learning_rate, high.method.end, high.method.sparsity) == (2e-5, 150, 0.9)
    assert low.method.start == high.method.start == 20


def test_another_sparsity_runs_with_the_nearest_ones_settings_and_a_note(written):
    settings = load_preset(written(FILE)).settings(0.95)
    assert (settings.run["learning_rate"], settings.method["end"], settings.method["sparsity"]) == (2e-5, 150, 0.95)
    assert "0.95 is none of preset" in settings.notes[0]
    assert "the settings of 0.9" in settings.notes[0]


def test_several_sparsities_and_none_asked_for_is_a_question(written):
    with pytest.raises(ValueError, match=r"how many weights should go\? preset .* needs --sparsity, one of 0.8, 0.9"):
        load_preset(written(FILE)).settings()


def test_a_lone_sparsity_needs_no_asking(written):
    one = '[method]\nmethod = "gmp"\n[sparsity."0.7"]\n'
    assert load_preset(written(one)).settings().method["sparsity"] == 0.7
    named = '[method]\nmethod = "gmp"\nsparsity = 0.6\n'
    assert load_preset(written(named)).settings().method["sparsity"] == 0.6


def test_words_of_the_users_win_over_the_preset(written):
    settings = load_preset(written(FILE)).settings(0.9)
    changed = settings.changed({"learning_rate": 1e-3, "data": "other"}, settings={"start": 5})
    config = changed.config(output="out")
    assert (config.learning_rate, config.data, config.method.start, config.method.end) == (1e-3, "other", 5, 150)
    assert isinstance(config.method, MGPP)


def test_another_method_keeps_the_ramp_and_leaves_the_priors_settings(written):
    method = load_preset(written(FILE)).settings(0.9).changed({}, method="gmp").config(output="out").method
    assert method == GMP(sparsity=0.9, start=20, end=150)


def test_a_form_of_a_method_keeps_the_ramp_and_hears_the_users_words(written):
    settings = load_preset(written(FILE)).settings(0.9)
    changed = settings.changed({}, method="recommended", settings={"decoupled": False})
    assert changed.method["method"] == "mgpp"
    assert changed.config(output="out").method == recommended(sparsity=0.9, start=20, end=150, decoupled=False)


def test_without_a_method_the_run_is_dense(written):
    settings = load_preset(written(FILE)).dense()
    assert settings.method is None
    assert settings.run["learning_rate"] == 1e-5
    assert "sparsity 0.8" in settings.notes[0]
    with pytest.raises(ValueError, match="prunes nothing: leave the sparsity out"):
        load_preset(written("[run]\nepochs = 1\n")).settings(0.9)


def test_times_in_steps_become_shares_of_the_run_that_they_were_written_for(written):
    preset = load_preset(written(FILE))
    assert preset.length(0.9).total_steps == 200
    assert preset.in_shares(0.9) == {"start": 0.1, "end": 0.75}
    assert load_preset("bert-base/mnli").in_shares(0.9) == {}  # an epoch, and the end
    assert load_preset(written(FILE.replace("examples = 1000", ""))).in_shares(0.9) == {}


def test_description_is_plain_json_with_steps(written):
    described = describe(load_preset(written(FILE)))
    assert json.loads(json.dumps(described)) == described
    assert [one["sparsity"] for one in described["resolved"]] == [0.8, 0.9]
    last = described["resolved"][1]
    assert last["length"] == {"total_steps": 200, "steps_per_epoch": 100, "train_size": 1000}
    assert (last["schedule"]["start"], last["schedule"]["end"], last["schedule"]["last"]) == (20, 150, 200)
    assert last["config"]["method"]["slab_var"] == 0.1
    assert "output" not in last["config"]


def test_a_preset_may_leave_its_model_to_the_user(written):
    preset = load_preset(written('[run]\ndata = "d"\n'))
    assert describe(preset)["resolved"][0]["config"]["model"] is None
    with pytest.raises(ValueError, match=r"which model\? the preset names none: give it \(--model\)"):
        preset.settings().config(output="out")


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("deberta-v3-base/mnl", "deberta-v3-base/mnli"),
        ("deberta-base/sst2", "deberta-v3-base/sst2"),
        ("mrpc", "deberta-v3-base/mrpc"),
        ("bert-base/sst-2", "bert-base/sst2"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(asked, near):
    with pytest.raises(ValueError, match=f"there is no preset '{asked}': did you mean .*{near}"):
        load_preset(asked)


@pytest.mark.parametrize(
    "name", ["bert-base/../../pyproject", "bert-base/../find", "bert-base", "", "bert-base/mnli/", "bert-base//mnli"]
)
def test_a_name_cannot_lead_out_of_the_presets(name):
    with pytest.raises(ValueError, match="there is no preset"):
        load_preset(name)
    with pytest.raises(ValueError, match="there is no preset"):
        read_text(name)


def test_a_file_that_is_not_there_is_told_how_to_make():
    with pytest.raises(FileNotFoundError, match=r"preset ./mine.toml is not there: `mgpp presets copy NAME"):
        load_preset("./mine.toml")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("epochs = 2", "epoch = 2", r"in \[run\] there is no setting epoch: did you mean epochs\?"),
        ("epochs = 2", 'epochs = "two"', r"in \[run\] epochs = 'two': it must be a number"),
        ("epochs = 2", "epochs = 0", r"epochs=0: it must be a number greater than 0"),
        ("batch_size = 10", "batch_size = 10.5", r"batch_size = 10.5: it must be a whole number"),
        ("batch_size = 10", "batch_size = true", r"batch_size = True: it must be a whole number"),
        ('model = "m"', "model = 7", r"in \[run\] model = 7: it must be a text"),
        ('model = "m"', 'output = "here"', r"in \[run\] there is no setting output"),
        ('data = "d"', 'precision = "fp8"', r"precision = 'fp8': it must be one of fp32, bf16, fp16"),
        ('data = "d"', "include = [1]", r"include = \[1\]: it must be a list of texts"),
        ('data = "d"', 'task = "poetry"', r"task='poetry' is not one of text"),
        ("slab_var = 0.1", "slap_var = 0.1", r"mgpp has no setting slap_var: it has sparsity"),
        ("slab_var = 0.1", 'slab_var = "wide"', r"is no number"),
        ("start = 20", 'start = "soon"', r"start='soon': a time is steps"),
        ('method = "mgpp"', 'method = "magic"', r"method='magic' is not one of mgpp"),
        ('[sparsity."0.8"]', '[sparsity."much"]', r"the name is a sparsity"),
        ('[sparsity."0.8"]', '[sparsity."80"]', r"sparsity=80.0: the fraction of weights to remove"),
        ("learning_rate = 1e-5", "learn_rate = 1e-5", r'in \[sparsity."0.8"\] there is no setting learn_rate'),
        ("method.end = 150", "method.ends = 150", r"mgpp has no setting ends"),
        ("examples = 1000", 'examples = "many"', r"at the top examples = 'many': it must be a whole number"),
        ("examples = 1000", "example = 1000", r"at the top there is no setting example: did you mean examples\?"),
        ("examples = 1000", "examples = ", r"Invalid value"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_the_file(old, new, told, written):
    assert old in FILE
    with pytest.raises(ValueError, match=rf"preset .*mine.toml: .*{told}"):
        load_preset(written(FILE.replace(old, new, 1)))


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is no text in UTF-8"):
        load_preset(str(tmp_path / "mine.toml"))


def test_what_is_written_is_read_back(written):
    prior = {"slab_var": 0.05, "decoupled": True}
    method = {"method": "platon", "sparsity": 0.9, "start": "1ep", "end": 0.75, "prior": prior}
    run = {"model": 'a "model"\n', "data": "ä\\", "learning_rate": 1e-05, "include": ("*.a", "*.b"), "text": None}
    text = to_toml(Settings(run=run, method=method), source="a sweep", why=["it's best"], examples=12)
    preset = load_preset(written(text))
    assert (preset.source, preset.why, preset.examples) == ("a sweep", ("it's best",), 12)
    config = preset.config()
    assert config == Settings(run=run, method=method).config(output="OUT")
    assert (config.include, config.method.prior.slab_var) == (("*.a", "*.b"), 0.05)
