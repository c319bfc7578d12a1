"""Keys and values of a file, held against the dataclass that they will fill."""

import difflib
import types
from collections.abc import Iterable, Mapping
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin

_WORDS = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "a text",
    tuple: "a list of texts",
    dict: "a table",
}


def check_keys(table: Mapping[str, Any], known: Iterable[str], *, where: str) -> None:
    known = list(known)
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            cure = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"{where} there is no setting {key}: {cure}")


def check_settings(table: Mapping[str, Any], hints: Mapping[str, Any], *, where: str) -> None:
    """Every key must be one of `hints`, and its value of that type."""
    check_keys(table, hints, where=where)
    for key, value in table.items():
        if not _fits(value, hints[key]):
            raise ValueError(f"{where} {key} = {value!r}: it must be {_words(hints[key])}")


def _fits(value: Any, hint: Any) -> bool:
    if isinstance(hint, ForwardRef):  # an object of another library, which no file can hold
        return False
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin is tuple:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, int | float) if hint is float else isinstance(value, hint)


def _words(hint: Any) -> str:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_WORDS[one] for one in get_args(hint) if one in _WORDS)
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    return _WORDS[origin or hint]
