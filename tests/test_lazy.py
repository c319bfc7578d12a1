"""What is loaded, and when: torch, transformers and datasets take seconds, and a question should not."""

import json
import subprocess
import sys

import pytest

import mgpp

SLOW = {"torch", "transformers", "datasets", "accelerate", "numpy"}


def loaded_by(code: str) -> set[str]:
    """The slow libraries that a new process has loaded after `code`."""
    told = f"{code}\nimport json, sys\nprint(json.dumps([*sys.modules]), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return SLOW & set(json.loads(done.stderr.splitlines()[-1]))


def test_importing_the_package_loads_no_library():
    assert loaded_by("import mgpp; dir(mgpp)") == set()


def test_methods_need_torch_and_no_transformers():
    assert loaded_by("from mgpp import MGPP, recommended") & {"torch", "transformers", "datasets"} == {"torch"}


def test_every_public_name_and_every_room_is_there():
    names: dict[str, object] = {}
    exec("from mgpp import *", names)
    assert {name for name in names if name != "__builtins__"} == set(mgpp.__all__)
    assert all(names[name] is getattr(mgpp, name) for name in mgpp.__all__)
    assert {*mgpp.__all__, "functional", "methods", "runtime"} <= set(dir(mgpp))
    loaded_by("import mgpp; mgpp.functional.prior, mgpp.methods.METHODS")


def test_a_wrong_name_is_an_ordinary_error():
    with pytest.raises(AttributeError, match="module 'mgpp' has no attribute 'MGP'"):
        mgpp.MGP  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'MGP'"):
        from mgpp import MGP  # noqa: F401
