"""The one table of methods, and how a method is written to TOML or JSON and read back."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from difflib import get_close_matches
from typing import Any, TypeVar

from mgpp.methods.gmp import GMP
from mgpp.methods.hold_mask import HoldMask
from mgpp.methods.itp import ITP
from mgpp.methods.l2 import L2
from mgpp.methods.losparse import LoSparse
from mgpp.methods.mgpp import MGPP
from mgpp.methods.movement import Movement
from mgpp.methods.obert import OBERT
from mgpp.methods.platon import PLATON
from mgpp.methods.prior import Prior
from mgpp.methods.prior_annealing import PriorAnnealing
from mgpp.methods.recommended import recommended, spelled
from mgpp.methods.soft_movement import SoftMovement

Method = MGPP | GMP | L2 | PLATON | ITP | Movement | SoftMovement | OBERT | LoSparse | PriorAnnealing | HoldMask
Kind = TypeVar("Kind")

METHODS: dict[str, type[Method]] = {
    "mgpp": MGPP,
    "gmp": GMP,
    "l2": L2,
    "platon": PLATON,
    "itp": ITP,
    "movement": Movement,
    "soft_movement": SoftMovement,
    "obert": OBERT,
    "losparse": LoSparse,
    "prior_annealing": PriorAnnealing,
    "hold_mask": HoldMask,
}

# Words for a method with settings of its own, and what they add. What is written is what they stand for.
FORMS: dict[str, tuple[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {"recommended": ("mgpp", spelled)}

_NAMES = {kind: name for name, kind in METHODS.items()}


def to_dict(method: Method) -> dict[str, Any]:
    """Plain numbers, strings and tables: {"method": "mgpp", "sparsity": 0.9, ...}. A setting that is None is left out,
    for TOML has no word for it."""
    return {"method": _NAMES[type(method)], **_without_none(asdict(method))}


def from_dict(settings: Mapping[str, Any]) -> Method:
    """The method that `to_dict` wrote, or that a person did: unknown names are refused with the known ones."""
    settings = spelled_out(settings)
    name = settings.pop("method", None)
    if not isinstance(name, str) or name not in METHODS:
        known = [*METHODS, *FORMS]
        near = get_close_matches(str(name).lower(), known, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"method={name!r} is not one of {', '.join(known)}{meant}")
    if isinstance(settings.get("prior"), Mapping):
        settings["prior"] = _build("prior", Prior, settings["prior"])
    if not {"sparsity", "structure"} & settings.keys() and needs_sparsity(name):
        raise ValueError(f"{name} needs a sparsity, for example sparsity=0.9")
    return _build(name, METHODS[name], settings)


def spelled_out(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A form's name replaced by its method and settings; those that are given beside it go first."""
    form = settings.get("method")
    if not isinstance(form, str) or form not in FORMS:
        return dict(settings)
    name, add_to = FORMS[form]
    return {"method": name, **add_to({key: value for key, value in settings.items() if key != "method"})}


def form_of(settings: Mapping[str, Any]) -> str | None:
    """The form that `settings` have, as `to_dict` wrote them: everything that it adds is there."""
    for form, (name, add_to) in FORMS.items():
        if settings["method"] == name and add_to({}).items() <= settings.items():
            return form
    return None


def title_of(settings: Mapping[str, Any]) -> str:
    """As a title names it: GMP, SOFT MOVEMENT, MGPP (recommended)."""
    form = form_of(settings)
    return settings["method"].replace("_", " ").upper() + (f" ({form})" if form else "")


def needs_sparsity(name: str) -> bool:
    """False for a method that has something to do without one."""
    return METHODS[name].__dataclass_fields__["sparsity"].default is None


def _build(name: str, kind: type[Kind], settings: Mapping[str, Any]) -> Kind:
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ValueError(f"{name} has no setting {', '.join(unknown)}: it has {', '.join(known)}")
    for field in fields(kind):  # type: ignore[arg-type]
        value = settings.get(field.name)
        if field.type in (int, float) and isinstance(value, str | bool):
            raise ValueError(f"{name}: {field.name}={value!r} is no number")
        if field.type is bool and not isinstance(value, bool | None):  # any word would count as true
            raise ValueError(f"{name}: {field.name}={value!r}: it is true or false")
    try:
        return kind(**settings)
    except TypeError as error:  # a string where a number belongs fails in the comparison that checks it
        raise ValueError(f"{name}: a setting has the wrong type: {error}") from None
    except OverflowError as error:
        raise ValueError(f"{name}: a setting is too large a number: {error}") from None


def _without_none(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in settings.items()
        if value is not None
    }


__all__ = [
    "FORMS",
    "GMP",
    "ITP",
    "L2",
    "METHODS",
    "MGPP",
    "OBERT",
    "PLATON",
    "HoldMask",
    "LoSparse",
    "Method",
    "Movement",
    "Prior",
    "PriorAnnealing",
    "SoftMovement",
    "form_of",
    "from_dict",
    "needs_sparsity",
    "recommended",
    "spelled_out",
    "title_of",
    "to_dict",
]
