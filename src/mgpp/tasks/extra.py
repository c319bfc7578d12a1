"""The packages that only data and metrics need: they come with an extra, so that the callback alone stays light."""

import importlib
from types import ModuleType


def require(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise ImportError(f"reading data and scoring need {name}: pip install 'mgpp[tasks]' ({error})") from None
