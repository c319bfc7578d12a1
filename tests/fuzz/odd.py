"""Values that somebody types by mistake, or on purpose. No path here can be written to outside a case's folder."""

from random import Random
from typing import Any

HUGE = "<huge>"  # stands for a million letters where a file or a word is made
HUGE_LETTERS = 1_000_000

NUMBERS = (
    "0", "1", "2", "3", "8", "-1", "0.5", "0.9", "1.0", "-0.0", "nan", "inf", "-inf", "1e308", "1e-320", "1e999",
    "1e30", "4294967296", "99999999999999999999", "0x10", "1_000", "１２", "1,5", "2ep", "1e9ep", "90",
)  # fmt: skip
TEXTS = (
    "", " ", "x", "none", "auto", "true", "null", "mgpp", "text", "label", "train", "validation", "a b", "a\nb", "a\tb",
    "\x1b[31mred", "\u202egnp", "😀", "é", "\udcff", "..", "../x", "../../x/y", "/proc/nope/x", "~", "~nobody/x", "a/b",
    "a/b/c/d", "a" * 5_000, "--", "-", "-x", "*", "[", "]{", "{x}", "%s", "[bold]", "$HOME", "a=b", "=", ",", "1,,2",
    "file:///x", "sqlite:///nope/x.db", "x.toml", "x.json", "x.png", "2:4", "0:0", "2x1",
)  # fmt: skip
PLACES = (
    "<bert>",
    "<llama>",
    "<bart>",
    "<reviews>",
    "<corpus>",
    "<questions>",
    "<run>",
    "<sparse>",
    "<unfinished>",
    "<comparison>",
)


def word(draw: Random) -> str:
    return draw.choice((*NUMBERS, *TEXTS, *PLACES))


def json_value(draw: Random, depth: int = 2) -> Any:
    """Anything that a JSON file can hold, and NaN, which Python's also can."""
    kind = draw.randrange(10 if depth else 8)
    if kind == 8:
        return [json_value(draw, depth - 1) for _ in range(draw.randrange(4))]
    if kind == 9:
        return {draw.choice(TEXTS[:12]): json_value(draw, depth - 1) for _ in range(draw.randrange(4))}
    return draw.choice(_PLAIN)


_PLAIN = (
    None, True, False, 0, 1, -1, 2, 7, 0.5, -0.5, 1e308, float("nan"), float("inf"), 10**6, 10**9, 2**63, 10**30, "",
    " ", "x", "1", "nan", "a\nb", "\x00", "\ud800", "\x1b[31m", "../x", "/proc/nope/x", HUGE, "bert", "text", "prune",
    "log", "start",
)  # fmt: skip
