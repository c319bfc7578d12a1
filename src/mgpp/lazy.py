"""A package whose names are loaded when they are first asked for: torch and transformers take seconds."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any


def lazily(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], Sequence[str]]]:
    """The package's `__getattr__` and `__dir__`, for its `names` by the module that has them, and for its modules."""
    home = {name: module for module, held in names.items() for name in held}
    here = sys.modules[package]

    def modules() -> set[str]:
        return {found.name for found in iter_modules(here.__path__) if not found.name.startswith("_")}

    def load(name: str) -> Any:
        if name in home:
            value = getattr(import_module(f"{package}.{home[name]}"), name)
            setattr(here, name, value)
            return value
        if not name.startswith("_") and name in modules():
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load, lambda: sorted({*vars(here), *home, *modules()})
