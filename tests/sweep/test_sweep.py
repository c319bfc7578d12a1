"""Points are tried once, in a study that outlives its processes; the best comes out as a preset that runs."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("datasets")
pytest.importorskip("optuna")

import optuna

from mgpp.presets import load_preset
from mgpp.run import RunInterrupted
from mgpp.sweep import Range, Search, sweep
from mgpp.sweep import trial as trials
from mgpp.sweep.results import as_table, collect
from mgpp.sweep.study import STORAGE_VARIABLE, make_pruner, open_storage, storage_name, without_password
from mgpp.sweep.trial import GIVEN_UP_FILE
from mgpp.sweep.worker import work

GRID = Search(sampler="grid")


def states(results: dict) -> list[str]:
    return [row["state"] for row in results["trials"]]


def test_a_grid_tries_every_point_once_and_the_best_comes_first(asked, pretending, tmp_path):
    results = sweep(asked, GRID, launch=pretending)
    assert sorted(map(str, pretending.points)) == sorted(map(str, asked.points()))
    assert states(results) == ["finished"] * 6
    assert results["best"]["params"]["learning_rate"] == 1e-2
    assert results["best"]["value"] == pytest.approx(1.0)
    values = [row["value"] for row in results["trials"]]
    assert values == sorted(values, reverse=True)
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == results
    heading, first, *_ = as_table(results)
    assert heading == ["trial", "learning_rate", "method.spike_var", "accuracy", ""]
    assert (first[1], first[3:]) == ("0.01", ["1.0000", "finished"])
    text = (tmp_path / "out" / "results.md").read_text()
    assert "as asked: 5 of 48 training rows are held out (10%, seed 0) and scored on" in text


def test_where_less_is_better_the_least_comes_first(asked):
    trials = [optuna.trial.create_trial(value=value) for value in (30.0, 20.0, 25.0)]
    for number, trial in enumerate(trials):
        trial.number = number
    told = {"study": "s", "storage": "here", "metric": "perplexity", "scored_on": "rows"}
    results = collect(asked, trials, lower_is_better=True, **told)
    assert [row["value"] for row in results["trials"]] == [20.0, 25.0, 30.0]
    assert results["best"]["number"] == 1


def test_no_trial_sees_the_validation_rows(asked, pretending):
    sweep(asked, replace(GRID, trials=2), launch=pretending)
    assert {job.config.eval_split for job in pretending.begun} == {"train:holdout"}


def test_the_best_is_a_preset_that_runs(asked, pretending, tmp_path):
    results = sweep(asked, GRID, launch=pretending, examples=48)
    preset = load_preset(results["best_file"])
    assert "mgpp sweep, study mgpp, trial" in preset.source
    assert "validation rows had no say" in preset.why[0]
    config = preset.settings().config(output=str(tmp_path / "best"))
    assert (config.learning_rate, config.eval_split, preset.examples) == (1e-2, None, 48)
    assert config.method == asked.chosen(results["best"]["params"]).config(output="out").method


def test_models_of_trials_are_removed_unless_they_are_wanted(asked, pretending, tmp_path):
    sweep(asked, replace(GRID, trials=1), launch=pretending)
    left = {path.name for path in (tmp_path / "out" / "trials" / "0000").iterdir()}
    assert left == {"run.json", "result.json"}
    other = replace(asked, output=str(tmp_path / "kept"))
    sweep(other, replace(GRID, trials=1), launch=pretending, keep_models=True)
    assert (tmp_path / "kept" / "trials" / "0000" / "model.safetensors").exists()


def test_a_trial_that_fails_is_marked_with_its_reason_and_the_others_go_on(asked, pretending, tmp_path):
    said = "print(json.dumps({'reason': 'out of memory: do this'})); sys.exit(1)"
    pretending.acts = {1: said, 2: "os.kill(os.getpid(), 9)"}
    told: list[str] = []
    results = sweep(asked, GRID, launch=pretending, tell=told.append)
    assert states(results) == ["finished"] * 4 + ["failed"] * 2
    assert [row["reason"][:13] for row in results["trials"][-2:]] == ["out of memory", "killed, most "]
    assert any("trial 1 (" in line and "failed: out of memory: do this" in line for line in told)
    assert "- trial 1: out of memory: do this" in (tmp_path / "out" / "results.md").read_text()


def test_more_trials_may_be_asked_for_and_none_is_repeated(asked, pretending):
    sweep(asked, replace(GRID, trials=2), launch=pretending)
    told: list[str] = []
    results = sweep(asked, replace(GRID, trials=5), launch=pretending, tell=told.append)
    assert told[0].endswith("5 trials, 2 are done already")
    assert len(pretending.begun) == len({str(point) for point in pretending.points}) == 5
    sweep(asked, replace(GRID, trials=5), launch=pretending)
    assert len(pretending.begun) == 5
    assert states(results) == ["finished"] * 5


def test_an_interrupted_sweep_goes_on_with_the_trials_it_had_begun(asked, pretending, tmp_path):
    pretending.acts = {1: "time.sleep(60)"}

    def interrupt(line: str) -> None:
        while "trial 0 (" in line and not (tmp_path / "out" / "trials" / "0001" / "run.json").exists():
            time.sleep(0.05)
        if "trial 0 (" in line:
            raise KeyboardInterrupt

    with pytest.raises(RunInterrupted, match=r"interrupted; 1 of 3 trials are done: the same command goes on"):
        sweep(asked, replace(GRID, trials=3), launch=pretending, workers=2, tell=interrupt)
    pretending.acts, pretending.begun = {}, []
    told: list[str] = []
    results = sweep(asked, replace(GRID, trials=3), launch=pretending, tell=told.append)
    assert "1 are done already, 1 were begun here and go on" in told[0]
    assert [job.number for job in pretending.begun] == [1, 2]
    assert pretending.begun[0].is_begun
    assert states(results) == ["finished"] * 3


def test_a_folder_of_somebody_else_is_refused_and_left_as_it_was(asked, pretending, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.json").write_text("a comparison's")
    with pytest.raises(ValueError, match=r"no sweep's, results.json among them"):
        sweep(asked, GRID, launch=pretending)
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["a comparison's"]


def test_a_study_may_lie_in_the_folder_of_one_that_shares_it(asked, pretending, tmp_path):
    search = replace(GRID, trials=2, storage=str(tmp_path / "out" / "shared.db"))
    sweep(replace(asked, output=str(tmp_path / "first")), search, launch=pretending)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["shared.db"]
    assert states(sweep(asked, replace(search, trials=3), launch=pretending)) == ["finished"] * 3


def test_a_trial_that_ended_unheard_is_told_and_not_run_again(asked, pretending, tmp_path):
    folder = tmp_path / "out" / "trials" / "0001"

    def die(line: str) -> None:
        while "trial 0 (" in line and not (folder / "run.json").exists():  # before that it may not hear an interrupt
            time.sleep(0.05)
        if "trial 0 (" in line:
            raise RuntimeError("the parent dies here")

    pretending.acts = {1: "time.sleep(60)"}
    with pytest.raises(RuntimeError):
        sweep(asked, replace(GRID, trials=2), launch=pretending, workers=2, tell=die)
    (folder / "result.json").write_text(
        json.dumps({"metric": "accuracy", "after": {"accuracy": 0.4}, "seconds": 1, "sparsity": 0.75})
    )
    pretending.begun = []
    results = sweep(asked, replace(GRID, trials=2), launch=pretending)
    assert pretending.begun == []
    assert results["trials"][-1]["value"] == 0.4


@pytest.mark.parametrize("place", ["shared.journal", "sqlite:///{}/shared.db"])
def test_two_folders_share_a_study_through_its_storage(place, asked, pretending, tmp_path):
    storage = place.format(tmp_path) if "://" in place else str(tmp_path / "deep" / place)
    search = replace(GRID, storage=storage, study="both")
    sweep(asked, replace(search, trials=2), launch=pretending)
    other = replace(asked, output=str(tmp_path / "other"))
    results = sweep(other, search, launch=pretending)
    assert len(pretending.begun) == 6
    assert len({job.folder for job in pretending.begun if "other" in str(job.folder)}) == 4
    assert len(results["trials"]) == 6
    assert (tmp_path / "other" / "best.toml").exists()


def test_two_at_the_same_time_divide_the_points(asked, pretending, tmp_path):
    search = replace(GRID, storage=str(tmp_path / "shared.journal"))
    pretending.acts = dict.fromkeys(range(6), "time.sleep(0.3)")
    sweeps = [replace(asked, output=str(tmp_path / name)) for name in ("one", "other")]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda one: sweep(one, search, launch=pretending), sweeps))
    assert {str(point) for point in pretending.points} == {str(point) for point in asked.points()}
    assert len(pretending.begun) <= 7  # the last point may be taken twice, for nobody holds the study
    assert {job.folder.parents[1].name for job in pretending.begun} == {"one", "other"}


def test_a_storage_is_a_journal_a_data_base_file_or_a_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert storage_name(None, tmp_path / "out") == str(tmp_path / "out" / "study.journal")
    assert storage_name("shared.log", tmp_path) == str(tmp_path / "shared.log")
    assert storage_name("shared.db", tmp_path) == f"sqlite:///{tmp_path}/shared.db"
    assert storage_name("mysql://u:p@host/db", tmp_path) == "mysql://u:p@host/db"


def test_a_password_is_in_no_process_list_and_in_no_file(asked, pretending, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(trials, "start_process", lambda *told: started.append(told))
    sweep(asked, replace(GRID, trials=1), launch=pretending)
    study = {**pretending.begun[0].study, "storage": "mysql://user:secret@host/db"}
    trials.launch(replace(pretending.begun[0], study=study), {}, tmp_path / "log")
    (_, told, environment, _) = started[0]
    assert "secret" not in json.dumps(told)
    assert environment[STORAGE_VARIABLE] == "mysql://user:secret@host/db"
    assert without_password("mysql://user:secret@host/db") == "mysql://user:***@host/db"


def test_a_trial_that_runs_elsewhere_is_left_to_its_machine(asked, pretending, tmp_path):
    storage = str(tmp_path / "shared.journal")
    study = optuna.create_study(study_name="mgpp", storage=open_storage(storage), direction="maximize")
    study.ask({"learning_rate": optuna.distributions.CategoricalDistribution([1e-3, 5e-3, 1e-2])})
    results = sweep(asked, replace(GRID, storage=storage, trials=3), launch=pretending)
    assert [job.number for job in pretending.begun] == [1, 2]
    assert states(results) == ["finished", "finished", "running"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"settings": {"seed": 1}}, r"seed: was 0, now 1"),
        ({"settings": {"batch_size": 4}}, r"batch_size: was 8, now 4"),
        ({"grid": {"learning_rate": [1e-3]}}, r"learning_rate: was \[0.001, 0.005, 0.01\], now \[0.001\]"),
        ({"search": {"sampler": "random"}}, r"sampler: was grid, now random"),
    ],
)
def test_a_study_of_another_sweep_is_refused_with_the_difference(change, told, asked, pretending):
    sweep(asked, replace(GRID, trials=1), launch=pretending)
    settings = replace(asked.settings, run={**asked.settings.run, **change.get("settings", {})})
    other = replace(asked, settings=settings, grid=change.get("grid", asked.grid))
    with pytest.raises(
        ValueError, match=rf"study mgpp in .* is of another sweep \(.*{told}.*\): sweep with its settings"
    ):
        sweep(other, replace(GRID, **change.get("search", {})), launch=pretending)
    assert len(pretending.begun) == 1


def test_machines_may_keep_their_data_in_other_places(asked, pretending, tmp_path):
    storage = str(tmp_path / "shared.journal")
    sweep(asked, replace(GRID, storage=storage, trials=1), launch=pretending)
    data = tmp_path / "elsewhere" / Path(asked.settings.run["data"]).name
    data.parent.mkdir()
    data.symlink_to(asked.settings.run["data"])
    moved = replace(asked.settings, run={**asked.settings.run, "data": str(data)})
    other = replace(asked, settings=moved, output=str(tmp_path / "other"))
    sweep(other, replace(GRID, storage=storage, trials=2), launch=pretending)
    assert len(pretending.begun) == 2


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_other_samplers_try_no_point_twice(sampler, asked, pretending):
    results = sweep(asked, Search(sampler=sampler, trials=6), launch=pretending)
    assert len(pretending.begun) == len({str(point) for point in pretending.points}) == 6
    told = [line for line in as_table(results) if line[-1].startswith("as trial")]
    assert len(told) == sum(row["same_as"] is not None for row in results["trials"])


def test_ranges_are_sampled_between_their_ends(asked, pretending):
    grid = {"learning_rate": Range(1e-4, 1e-2), "batch_size": Range(4, 8)}
    sweep(replace(asked, grid=grid), Search(sampler="random", trials=3), launch=pretending)
    assert len(pretending.begun) == 3
    assert all(1e-4 <= job.config.learning_rate <= 1e-2 for job in pretending.begun)
    assert all(job.config.batch_size in range(4, 9) for job in pretending.begun)


@pytest.mark.parametrize(
    ("grid", "search", "told"),
    [
        ({"learning_rate": Range(1e-4, 1e-2)}, {"sampler": "grid"}, "sampler='grid' needs lists of values"),
        (None, {"sampler": "magic"}, "sampler='magic' is not one of tpe, random, grid"),
        (None, {"pruner": "magic"}, "pruner='magic' is not one of median, halving, none"),
        (None, {"patience": 1.5}, "patience=1.5"),
        ({"method.end": [0.5, 90]}, {}, "end=90 is past the run's last step 10"),
        ({"data": ["absent.csv"]}, {}, "absent.csv is not there"),
        (None, {"storage": "nosuch://user:secret@host/db"}, r"storage nosuch://user:\*\*\*@host/db cannot be opened"),
    ],
)
def test_what_would_fail_in_every_trial_is_refused_before_any_is_run(grid, search, told, asked, pretending):
    with pytest.raises((ValueError, OSError), match=told):
        sweep(asked if grid is None else replace(asked, grid=grid), Search(**search), launch=pretending)
    assert pretending.begun == []


def test_two_sweeps_in_one_folder_are_one_too_many(asked, pretending, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="another sweep is at work in"):
            sweep(asked, GRID, launch=pretending)
    assert pretending.begun == []


# With runs that do train


@pytest.fixture(autouse=True)
def storage(tmp_path, monkeypatch):
    monkeypatch.setenv(STORAGE_VARIABLE, storage_name(None, tmp_path))


def told_to_worker(asked, folder: Path, study, trial, *, pruner: str = "median") -> dict:
    config = asked.config(trial.params, output=str(folder / "trial"))
    return {
        "config": replace(config, eval_steps=2).to_dict(),
        "resume": False,
        "trial": trial._trial_id,
        "study": study.study_name,
        "pruner": pruner,
        "patience": 0.0,
        "metric": "accuracy",
    }


@pytest.fixture
def study(tmp_path):
    storage = open_storage(storage_name(None, tmp_path))
    return optuna.create_study(storage=storage, direction="maximize", pruner=make_pruner("median", patience=0))


def ask(study):
    choices = optuna.distributions.CategoricalDistribution
    return study.ask({"learning_rate": choices([1e-3]), "method.spike_var": choices([1e-9])})


def test_a_trial_that_does_badly_is_given_up_on_its_way(asked, study, tmp_path):
    for _ in range(5):
        better = ask(study)
        for percent in (20, 40, 60, 80):
            better.report(2.0, percent)
        study.tell(better, 2.0)
    trial = ask(study)
    work(told_to_worker(asked, tmp_path, study, trial))
    reason = json.loads((tmp_path / "trial" / GIVEN_UP_FILE).read_text())["reason"]
    assert reason == "given up after step 2 of 10: others did better by then"
    assert not (tmp_path / "trial" / "result.json").exists()
    assert list(study.trials[trial.number].intermediate_values) == [20]


def test_a_trial_that_does_well_reports_its_percent_and_ends(asked, study, tmp_path):
    trial = ask(study)
    work(told_to_worker(asked, tmp_path, study, trial))
    assert (tmp_path / "trial" / "result.json").exists()
    assert list(study.trials[trial.number].intermediate_values) == [20, 40, 60, 80]


def test_a_given_up_trial_is_known_to_the_study(asked, pretending, tmp_path):
    act = f"(folder / '{GIVEN_UP_FILE}').write_text(json.dumps({{'reason': 'given up after step 2'}})); sys.exit(0)"
    pretending.acts = {1: act}
    results = sweep(asked, replace(GRID, trials=3), launch=pretending)
    assert states(results) == ["finished", "finished", "given up"]
    assert results["trials"][-1]["reason"] == "given up after step 2"
