"""The scripts of experiments begin each run once, a few at a time, keep what is done, and leave no run behind."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parent.parent.parent / "experiments"
# Stands for Python: notes its arguments and how many like it there are, and fails where it is told to.
STAND_IN = """#!/usr/bin/env bash
trap 'sleep 0.5; echo "tidied up" >&2; exit 130' TERM
while [[ $1 != --output ]]; do shift; done
name=$(basename "$2")
echo "$name $*" >> "$SEEN/calls"
echo $$ >> "$SEEN/pids"
mkdir "$SEEN/now-$name"
ls -d "$SEEN"/now-* | wc -l >> "$SEEN/counts"
sleep "${SECONDS_EACH:-0.2}" & wait $!
rmdir "$SEEN/now-$name"
echo "half a result"
[[ $name != "${FAILS:-}" ]]
"""
FORMS = ("gmp", "mgpp", "platon", "recommended", "faster", "platonfaster")
NAMES = {
    experiment: ["dense", *[f"{form}-{at}" for form in FORMS for at in sparsities]]
    for experiment, sparsities in {
        "squad": (50, 70, 80, 90, 95),
        "cnn_dailymail": (50, 80),
        "xsum": (50, 80),
        "decoder": (50, 70),
    }.items()
}
AGAIN = ["dense", *[f"{form}-90" for form in ("faster", "recommended", "platonfaster", "platon")]]
NAMES["squad"] += [f"{name}@{seed}" for name in AGAIN for seed in (1, 2)]


@pytest.fixture
def stand_in(tmp_path) -> dict[str, str]:
    """The environment in which a script finds the stand-in for Python."""
    path = tmp_path / "python"
    path.write_text(STAND_IN)
    path.chmod(0o755)
    return {**os.environ, "PYTHON": str(path), "SEEN": str(tmp_path)}


@pytest.fixture
def call(stand_in, tmp_path):
    def begin(experiment: str, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
        script = [str(EXPERIMENTS / experiment / "run.sh"), "model", "data", str(tmp_path / "out"), *options]
        return subprocess.run(script, env={**stand_in, **more}, capture_output=True, text=True, check=False, timeout=60)

    return begin


@pytest.mark.parametrize("experiment", ["squad", "cnn_dailymail", "levels", "upstream"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_script_that_is_ended_leaves_no_run_behind(stand_in, tmp_path, experiment, number, code):
    words = ["model", "data", *(["sst2"] if experiment == "upstream" else []), str(tmp_path / "out")]
    told = {**stand_in, "SECONDS_EACH": "30", "AT_ONCE": "2"}
    script = subprocess.Popen(
        [str(EXPERIMENTS / experiment / "run.sh"), *words],
        env=told,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # a shell's background job ignores an interrupt
    )
    pids = begun(tmp_path, count=2)
    script.send_signal(number)
    _, said = script.communicate(timeout=20)
    assert script.returncode == code
    assert "ended, and the runs with it" in said.decode()
    until_true(lambda: not any(is_alive(pid) for pid in pids))


def test_a_script_ends_when_its_runs_have_said_what_is_left_of_them(stand_in, tmp_path):
    told = {**stand_in, "SECONDS_EACH": "30", "AT_ONCE": "2"}
    script = subprocess.Popen([str(EXPERIMENTS / "squad" / "run.sh"), "model", "data", str(tmp_path / "out")], env=told)
    begun(tmp_path, count=2)
    script.terminate()
    assert script.wait(timeout=20) == 143
    last = [path.read_text().splitlines()[-1] for path in (tmp_path / "out").glob("*.log")]
    assert last == ["tidied up"] * 2


def begun(folder: Path, *, count: int) -> list[str]:
    noted = folder / "pids"
    until_true(lambda: noted.exists() and len(noted.read_text().split()) >= count)
    return noted.read_text().split()


def until_true(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_alive(pid: str) -> bool:
    """Not one that has ended and whose parent has not asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def calls(folder: Path) -> dict[str, str]:
    lines = (folder / "calls").read_text().splitlines()
    assert len({line.split()[0] for line in lines}) == len(lines)
    return {line.split()[0]: line for line in lines}


@pytest.mark.parametrize("experiment", NAMES)
def test_every_run_is_begun_once_and_no_more_than_asked_at_a_time(call, tmp_path, experiment):
    done = call(experiment, "--epochs", "4", AT_ONCE="3")
    assert done.returncode == 0, done.stderr
    begun = calls(tmp_path)
    assert sorted(begun) == sorted(NAMES[experiment])
    assert 1 < max(map(int, (tmp_path / "counts").read_text().split())) <= 3
    for name, options in begun.items():
        assert options.endswith("--epochs 4")  # what is given goes last, and so counts
        name, _, seed = name.partition("@")
        assert re.findall(r"--seed (\S+)", options) == [seed] * bool(seed)
        sparsity = re.search(r"--sparsity (\S+)", options)
        assert (sparsity and sparsity[1]) == (None if name == "dense" else f"0.{name[-2:]}")
        assert ("--method" in options) == (not name.startswith(("recommended", "faster")))
        rate = re.search(r"lr_power=(\S+)", options)
        assert (rate and rate[1]) == {"recommended": "0", "platonfaster": "0.5"}.get(name.partition("-")[0])
        assert ("spike_var=1e-9" in options) == name.startswith("mgpp")
        assert "--overwrite" in options
        assert "--resume" not in options


def test_a_second_call_runs_only_what_failed(call, tmp_path):
    first = call("squad", FAILS="mgpp-80", AT_ONCE="9")
    assert first.returncode == 1
    assert "failed: mgpp-80" in first.stderr
    assert not (tmp_path / "out" / "mgpp-80.json").exists()
    (tmp_path / "calls").unlink()
    second = call("squad")
    assert second.returncode == 0
    assert list(calls(tmp_path)) == ["mgpp-80"]
    assert (tmp_path / "out" / "mgpp-80.json").read_text() == "half a result\n"


@pytest.mark.parametrize("experiment", ["squad", "cnn_dailymail", "xsum", "decoder"])
def test_a_run_that_was_cut_short_goes_on(call, tmp_path, experiment):
    for name, files in {"dense": ["run.json"], NAMES[experiment][1]: ["run.json", "result.json"]}.items():
        (tmp_path / "out" / name).mkdir(parents=True)
        for file in files:
            (tmp_path / "out" / name / file).write_text("{}")
    assert call(experiment, AT_ONCE="9").returncode == 0
    begun = calls(tmp_path)
    assert [name for name, options in begun.items() if "--resume" in options] == ["dense"]
    assert [name for name, options in begun.items() if "--overwrite" not in options] == ["dense"]


GLUE = EXPERIMENTS / "glue"


def test_glue_plans_its_cells_and_runs_none_that_is_there(tmp_path):
    for name in ("minilm-choose.jsonl", "minilm-table2.jsonl"):
        shutil.copy(GLUE / "results" / name, tmp_path)
    told = {"RESULTS": str(tmp_path), "OPTIONS": "--seconds 0", "PYTHON": sys.executable, "TMPDIR": str(tmp_path)}
    path = {"PYTHONPATH": str(EXPERIMENTS.parent / "src")}
    words = [str(GLUE / "run.sh"), "minilm", "models", "features", "table2"]
    run = subprocess.run(words, env={**os.environ, **told, **path}, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["minilm, table2:", "72 cells", "0 cells, 72 finished before"]
    assert {path.name for path in tmp_path.iterdir()} == {"minilm-choose.jsonl", "minilm-table2.jsonl"}


def test_glue_refuses_what_it_does_not_know():
    words = [str(GLUE / "run.sh"), "minilm", "models", "features", "tabel"]
    run = subprocess.run(words, capture_output=True, text=True)
    assert run.returncode == 2
    assert "tabel: no table and no study" in run.stderr
