"""Whatever is typed or read: success, or one clear line and exit code 2, and nothing left behind."""

import json
from pathlib import Path

import pytest

pytest.importorskip("datasets")
pytest.importorskip("optuna")
pytest.importorskip("matplotlib")

from tests.fuzz.__main__ import CORPUS
from tests.fuzz.case import Case
from tests.fuzz.generate import case_of
from tests.fuzz.trial import judge, try_case
from tests.fuzz.world import World

FIRST, CASES, AT_ONCE = 1_000_000, 300, 50  # seeds that `python -m tests.fuzz` does not reach by itself
KEPT = CORPUS.read_text(encoding="utf-8").splitlines() if CORPUS.exists() else []


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("first", range(FIRST, FIRST + CASES, AT_ONCE))
def test_no_input_brings_the_command_down(first: int, world: World):
    for seed in range(first, first + AT_ONCE):
        outcome = try_case(case_of(seed), world)
        assert not outcome.is_defect, f"{outcome.kind} {outcome.told} (python -m tests.fuzz --show {seed})"


@pytest.mark.parametrize("part", range(8))
def test_what_once_brought_it_down_does_so_no_more(part: int, world: World):
    for line in KEPT[part::8]:
        outcome = try_case(Case.from_json(line), world)
        assert not outcome.is_defect, f"{outcome.kind} {outcome.told} (seed {json.loads(line)['seed']})"


def test_a_case_follows_from_its_seed():
    assert [case_of(seed).to_json() for seed in range(200)] == [case_of(seed).to_json() for seed in range(200)]


def test_a_case_comes_back_from_json_as_it_was():
    for seed in range(200):
        line = case_of(seed).to_json()
        assert Case.from_json(line).to_json() == line


# The judge


def told(err: str, *, code: int = 2, **surroundings: object) -> str:
    return judge(code, "", err, **{"left": [], "launched": False, "resumes": False, **surroundings})  # type: ignore[arg-type]


LINE = "mgpp: x=1: it must be at least 2\n"


def test_one_line_and_exit_code_2_is_a_refusal():
    assert told(f"a plan\n{LINE}") == "refused"


@pytest.mark.parametrize(
    ("err", "how"),
    [
        ("", {}),
        (f"{LINE}and more\n", {}),
        (LINE + LINE, {}),
        ("mgpp: no\n", {}),
        ("mgpp: KeyError: 'the key of something'\n", {}),
        ("mgpp: an escape \x1b[31m sequence\n", {}),
        (f"mgpp: {'x' * 2_000}\n", {}),
        ("Traceback (most recent call last)\n" + LINE, {}),
        (LINE, {"left": ["here/out"]}),
        (LINE, {"code": 1}),
        (LINE, {"code": 3}),
        ("", {"code": 0, "left": ["tmp/x"]}),
    ],
)
def test_anything_else_is_a_defect(err, how):
    assert told(err, **how).startswith("DEFECT")


def test_a_run_that_is_stopped_by_bad_numbers_is_no_defect():
    assert told("mgpp: the gradient of step 2 is nan: the step is refused\n", code=1) == "stopped"


def test_what_a_case_writes_is_in_its_own_folder(world: World, tmp_path: Path):
    case = Case(area="words", words=["presets", "copy", "bert-base/mnli", "mine.toml"])
    assert try_case(case, world).kind == "success"
    assert not (tmp_path / "mine.toml").exists()
    assert (world.room / "case" / "here" / "mine.toml").exists()
