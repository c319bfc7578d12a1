"""One preset: what a row of a table says of a run, and what it says at each sparsity."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from mgpp.methods import from_dict, needs_sparsity, spelled_out
from mgpp.methods.ramp import Ramp
from mgpp.methods.times import Run
from mgpp.run.config import RunConfig

OPEN = ("model", "data")  # what a preset may leave to the user
_SHARED = tuple(field.name for field in fields(Ramp))
_TIMES = ("start", "end", "prune_at")


def sparsity_of(method: Mapping[str, Any]) -> float | None:
    """What its settings say, or its structure: to keep 2 of 4 is a sparsity of its own."""
    structure, sparsity = method.get("structure"), method.get("sparsity")
    if sparsity is None and isinstance(structure, str) and ":" in structure:
        return Ramp(structure=structure).sparsity
    if isinstance(sparsity, bool) or not isinstance(sparsity, int | float | None):
        raise ValueError(f"sparsity={sparsity!r}: it must be a number, such as 0.9")
    return sparsity


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a preset comes to once its sparsity is chosen; `method` is None where nothing is pruned."""

    run: Mapping[str, Any]
    method: Mapping[str, Any] | None
    notes: tuple[str, ...] = ()

    def changed(
        self, run: Mapping[str, Any], *, method: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> "Settings":
        """A person's own words win. Another method keeps the ramp, which all methods share, and leaves the rest."""
        own = dict(self.method or {})
        if method == "none":
            own = {}
        elif method not in (None, own.get("method")):
            own = {"method": method, **{key: own[key] for key in _SHARED if key in own}}
        if settings and not own:
            raise ValueError(f"nothing is pruned here: leave {', '.join(settings)} out, or choose a method")
        return replace(self, run={**self.run, **run}, method=spelled_out({**own, **(settings or {})}) or None)

    def config(self, *, output: str) -> RunConfig:
        for name in OPEN:
            if name not in self.run:
                raise ValueError(f"which {name}? the preset names none: give it (--{name})")
        method = None if self.method is None else from_dict(self.method)
        run: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in self.run.items()
        }
        return RunConfig(**run, method=method, output=output)


@dataclass(frozen=True, kw_only=True)
class Preset:
    """`source` says whose numbers these are, `why` where they depart from it, or what it leaves open, and the reason.

    `examples` is the number of training examples of the data that it names, where that is known. `at` holds, by
    sparsity, what differs from `run` and, under "method", from `method`. No method: nothing is pruned.
    """

    name: str
    source: str
    why: tuple[str, ...] = ()
    examples: int | None = None
    run: Mapping[str, Any]
    method: Mapping[str, Any] | None
    at: Mapping[float, Mapping[str, Any]]

    @property
    def sparsities(self) -> tuple[float, ...]:
        return tuple(sorted(self.at))

    @property
    def needs_sparsity(self) -> bool:
        return self.method is not None and needs_sparsity(self.method["method"])

    @property
    def named(self) -> set[str]:
        """The settings that it gives, the method's as method.NAME; all others have their defaults."""
        found = {*self.run, *(f"method.{key}" for key in self.method or {})}
        for special in self.at.values():
            found |= {key for key in special if key != "method"}
            found |= {f"method.{key}" for key in special.get("method", {})}
        return found

    def settings(self, sparsity: float | None = None) -> Settings:
        """The numbers at this sparsity, or at the one that the preset names, if it is one alone.

        A sparsity between the row's gets the settings of the nearest, and a note.
        """
        if self.method is None:
            if sparsity is not None:
                raise ValueError(f"preset {self.name} prunes nothing: leave the sparsity out")
            return Settings(run=self.run, method=None)
        sparsity = self._chosen(sparsity)
        if sparsity is None:
            return Settings(run=self.run, method=self.method)
        method = {**self.method, "sparsity": sparsity}
        if not self.at:
            return Settings(run=self.run, method=method)
        nearest = min(self.at, key=lambda known: abs(known - sparsity))
        run = dict(self.at[nearest])
        method |= run.pop("method", {})
        return Settings(run={**self.run, **run}, method=method, notes=self._notes(sparsity, nearest))

    def dense(self) -> Settings:
        """The run without its method; where the sparsities differ in it, as it is at the lowest."""
        if not self.at:
            return Settings(run=self.run, method=None)
        lowest = self.sparsities[0]
        run = {key: value for key, value in self.at[lowest].items() if key != "method"}
        note = f"nothing is pruned: preset {self.name} runs with the settings of sparsity {lowest:g}"
        return Settings(run={**self.run, **run}, method=None, notes=(note,) if run else ())

    def config(self, sparsity: float | None = None) -> RunConfig:
        """What would be run. Where the preset leaves the model or the data to the user, a word stands for it."""
        settings = self.settings(sparsity)
        return settings.changed({name: name.upper() for name in OPEN if name not in settings.run}).config(output="OUT")

    def length(self, sparsity: float | None = None) -> Run | None:
        """How long its run is, on the data that it names."""
        return None if self.examples is None else self.config(sparsity).length(self.examples)

    def in_shares(self, sparsity: float | None = None) -> dict[str, float]:
        """Its times that are steps, as shares of its run: so they fit data of any size."""
        length, method = self.length(sparsity), self.settings(sparsity).method
        if length is None or method is None:
            return {}
        steps = {name: method[name] for name in _TIMES if isinstance(method.get(name), int)}
        return {name: round(step / length.total_steps, 6) for name, step in steps.items() if step > 0}

    def _chosen(self, asked: float | None) -> float | None:
        assert self.method is not None
        if asked is not None:
            return asked
        if (own := sparsity_of(self.method)) is not None:
            return own
        if len(self.at) == 1:
            return self.sparsities[0]
        if not self.needs_sparsity:
            return None
        known = f"one of {self._known()}" if self.at else "such as 0.9"
        raise ValueError(f"how many weights should go? preset {self.name} needs --sparsity, {known}")

    def _notes(self, sparsity: float, nearest: float) -> tuple[str, ...]:
        if sparsity in self.at:
            return ()
        note = f"sparsity {sparsity:g} is none of preset {self.name}'s ({self._known()})"
        return (f"{note}: it runs with the settings of {nearest:g}" if self.at[nearest] else note,)

    def _known(self) -> str:
        return ", ".join(f"{sparsity:g}" for sparsity in self.sparsities)
