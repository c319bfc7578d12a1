"""Advice that agrees with itself: of ways that lead apart, those out of the weightier finding stay."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

OTHERS_FIRST = "What helps against this would undo what is advised above: try that first, and look again."


@dataclass(frozen=True, kw_only=True)
class Advice:
    """`kind` is problem or note."""

    kind: str
    seen: str
    change: str


@dataclass(frozen=True)
class Way:
    """One thing to try, in words; `moves` says what it makes more of (1) and what less (-1)."""

    words: str
    moves: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was seen, and the ways out of it; any of them would do. `lead` opens their sentence."""

    kind: str
    seen: str
    ways: Sequence[Way]
    lead: str = ""


def agreeing(findings: Iterable[Finding]) -> Iterator[Advice]:
    """No way undoes one that was named before it. What was seen is told always."""
    moved: dict[str, int] = {}
    for finding in findings:
        ways = [way for way in finding.ways if all(moved.get(what, by) == by for what, by in way.moves.items())]
        for way in ways:
            moved |= way.moves
        change = _sentence(finding.lead, ways) if ways else OTHERS_FIRST
        yield Advice(kind=finding.kind, seen=finding.seen, change=change)


def _sentence(lead: str, ways: Sequence[Way]) -> str:
    *others, last = (way.words for way in ways)
    told = f"{lead}{', '.join(others)}, or {last}." if others else f"{lead}{last}."
    return told[0].upper() + told[1:]
