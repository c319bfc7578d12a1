"""What is loaded, and when: torch, transformers and datasets take seconds, and a question should not."""

import json
import subprocess
import sys

import pytest
import typer

import mgpp
from mgpp.cli.app import COMMANDS, app, load
from mgpp.cli.asked import METHOD_NAMES
from mgpp.cli.options import SETTINGS
from mgpp.methods import FORMS, METHODS
from mgpp.tasks import TASKS

READY = ("prune --help", "prune --sparsty 0.9", "finetune --help", "evaluate --help")
SLOW = {"torch", "transformers", "datasets", "accelerate", "numpy"}


def loaded_by(code: str) -> set[str]:
    """The slow libraries that a new process has loaded after `code`."""
    told = f"{code}\nimport json, sys\nprint(json.dumps([*sys.modules]), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return SLOW & set(json.loads(done.stderr.splitlines()[-1]))


def test_importing_the_package_loads_no_library():
    assert loaded_by("import mgpp; assert {'MGPP', 'methods', 'runtime'} <= set(dir(mgpp))") == set()


@pytest.mark.parametrize("words", ["", "--help", "--version", "prnue", "--sparsty 0.9", *READY])
def test_the_command_answers_before_any_library_is_loaded(words):
    assert loaded_by(f"from mgpp.cli import main; main({words.split()})") == set()


def test_a_command_quiets_its_libraries_after_they_are_loaded():
    code = (
        "import logging, sys, warnings; from mgpp.cli import main; main(['inspect', 'no/where']); "
        "assert 'huggingface_hub' in sys.modules; "
        "print(logging.getLogger('huggingface_hub').level, warnings.filters[0][0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["40", "ignore"]


@pytest.mark.parametrize("limit", [20, 60, 200])
def test_the_help_says_of_a_command_what_the_command_says_of_itself(limit):
    said = {name: command.get_short_help_str(limit) for name, command in typer.main.get_command(app).commands.items()}
    assert said == {name: load(name).get_short_help_str(limit) for name in COMMANDS}


def test_the_help_names_every_method_and_every_task():
    assert ", ".join([*METHODS, *FORMS]) == METHOD_NAMES
    assert SETTINGS["task"].help == f"One of {', '.join(TASKS)}."


def test_methods_need_torch_and_no_transformers():
    assert loaded_by("from mgpp import MGPP, recommended") & {"torch", "transformers", "datasets"} == {"torch"}


def test_every_public_name_and_every_room_is_there():
    names: dict[str, object] = {}
    exec("from mgpp import *", names)
    assert {name for name in names if name != "__builtins__"} == set(mgpp.__all__)
    assert all(names[name] is getattr(mgpp, name) for name in mgpp.__all__)
    loaded_by("import mgpp; mgpp.functional.prior, mgpp.methods.METHODS")


def test_a_wrong_name_is_an_ordinary_error():
    with pytest.raises(AttributeError, match="module 'mgpp' has no attribute 'MGP'"):
        mgpp.MGP  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'MGP'"):
        from mgpp import MGP  # noqa: F401
