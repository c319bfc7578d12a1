"""The one table of methods, and how a method is written to TOML or JSON and read back."""

from dataclasses import asdict, fields
from typing import Any

from mgpp.methods.gmp import GMP
from mgpp.methods.l2 import L2
from mgpp.methods.mgpp import MGPP

Method = MGPP | GMP | L2

METHODS: dict[str, type[Method]] = {
    "mgpp": MGPP,
    "gmp": GMP,
    "l2": L2,
}

_NAMES = {kind: name for name, kind in METHODS.items()}


def to_dict(method: Method) -> dict[str, Any]:
    """Plain numbers and strings: {"method": "mgpp", "sparsity": 0.9, ...}."""
    return {"method": _NAMES[type(method)], **asdict(method)}


def from_dict(settings: dict[str, Any]) -> Method:
    """The method that `to_dict` wrote, or that a person did: unknown names are refused with the known ones."""
    settings = dict(settings)
    name = settings.pop("method", None)
    if name not in METHODS:
        raise ValueError(f"method={name!r} is not one of {', '.join(METHODS)}")
    kind = METHODS[name]
    known = [f.name for f in fields(kind)]
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ValueError(f"{name} has no setting {', '.join(unknown)}: it has {', '.join(known)}")
    if "sparsity" not in settings:
        raise ValueError(f"{name} needs a sparsity, for example sparsity=0.9")
    try:
        return kind(**settings)
    except TypeError as error:  # a string where a number belongs fails in the comparison that checks it
        raise ValueError(f"{name}: a setting has the wrong type: {error}") from None


__all__ = ["GMP", "L2", "METHODS", "MGPP", "Method", "from_dict", "to_dict"]
