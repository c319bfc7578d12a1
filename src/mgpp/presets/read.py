"""From a TOML file to a Preset: every key and value is looked at here, and what is wrong is named with the file."""

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from mgpp.methods import METHODS
from mgpp.presets.check import check_settings
from mgpp.presets.preset import Preset, sparsity_of
from mgpp.run.config import RunConfig

# Given elsewhere: the folder by the user, the method by its own table. Whose code is trusted no file may say.
_NOT_IN_RUN = ("output", "method", "trust_remote_code")
RUN_KEYS = {field.name: field.type for field in fields(RunConfig) if field.name not in _NOT_IN_RUN}
_MOST_EXAMPLES = 10**12
_HEAD = {"source": str, "why": tuple[str, ...], "examples": int, "run": dict, "method": dict, "sparsity": dict}


def read_preset(text: str, *, name: str) -> Preset:
    try:
        return _read(tomllib.loads(text), name)
    except ValueError as error:  # a TOMLDecodeError is one
        raise ValueError(f"preset {name}: {error}") from None
    except RecursionError:
        raise ValueError(f"preset {name}: its values are nested too deeply") from None


def _read(table: Mapping[str, Any], name: str) -> Preset:
    check_settings(table, _HEAD, where="at the top")
    check_settings(table.get("run", {}), RUN_KEYS, where="in [run]")
    if "method" not in table and "sparsity" in table:
        raise ValueError("[sparsity] without a [method]: nothing would be pruned; say which method")
    name_of_method = table.get("method", {}).get("method")
    if "method" in table and (not isinstance(name_of_method, str) or name_of_method not in METHODS):
        raise ValueError(f"in [method] method={name_of_method!r} is not one of {', '.join(METHODS)}")
    examples = table.get("examples")
    if examples is not None and not 1 <= examples <= _MOST_EXAMPLES:
        raise ValueError(f"examples = {examples}: it is the number of training examples, 1 to {_MOST_EXAMPLES:,}")
    preset = Preset(
        name=name,
        source=table.get("source", "a file of your own"),
        why=tuple(table.get("why", ())),
        examples=examples,
        run=table.get("run", {}),
        method=table.get("method"),
        at={_sparsity(key): _at(key, value) for key, value in table.get("sparsity", {}).items()},
    )
    _try(preset)
    return preset


def _sparsity(key: str) -> float:
    try:
        return float(key)
    except ValueError:
        raise ValueError(f'[sparsity."{key}"]: the name is a sparsity, such as [sparsity."0.9"]') from None


def _at(key: str, value: Any) -> dict[str, Any]:
    """A sparsity's own table: settings of the run, and its method's as method.KEY."""
    where = f'in [sparsity."{key}"]'
    if not isinstance(value, dict):
        raise ValueError(f"{where} there is {value!r}: it must be a table")
    check_settings(value, {**RUN_KEYS, "method": dict}, where=where)
    return value


def _try(preset: Preset) -> None:
    """Build what would be run: ranges and the method's own settings are checked where they are known."""
    if not preset.needs_sparsity or sparsity_of(preset.method or {}) is not None:
        preset.config()
        return
    for sparsity in preset.sparsities or (0.5,):
        preset.config(sparsity)
