"""A preset as a file: settings that were found become one that `mgpp prune --preset` runs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mgpp.presets.preset import Settings


def to_toml(settings: Settings, *, source: str, why: Sequence[str] = (), examples: int | None = None) -> str:
    head = [f"source = {_value(source)}"]
    if why:
        head += ["why = [", *(f"  {_value(line)}," for line in why), "]"]
    if examples is not None:
        head.append(f"examples = {examples}")
    parts = ["\n".join(head), _table("run", settings.run)]
    if settings.method is not None:
        parts.append(_table("method", settings.method))
    return "\n\n".join(parts) + "\n"


def _table(name: str, values: Mapping[str, Any]) -> str:
    # TOML has no word for None: what is not there has its default.
    return "\n".join([f"[{name}]", *(f"{key} = {_value(value)}" for key, value in values.items() if value is not None)])


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_value(one)}" for key, one in value.items() if one is not None) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    if isinstance(value, str):
        # A JSON string is a TOML one, but for the one control character that JSON leaves as it is.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
