"""Presets: TOML that is almost right, in the commands that read it."""

from dataclasses import fields
from random import Random

from mgpp.methods import METHODS
from mgpp.presets.read import RUN_KEYS
from tests.fuzz.case import Case
from tests.fuzz.odd import HUGE, TEXTS
from tests.fuzz.words import LIKELY, SHORT

HEAD = ('source = "mine"', 'why = ["because"]', "examples = 32")
RUN = ('model = "<bert>"', 'data = "<reviews>"', "batch_size = 4", "max_length = 16", 'device = "cpu"', "max_steps = 2")
METHOD = ('method = "mgpp"', "start = 0", "end = 1", "every = 1")
VALUES = (
    '""', '"x"', '"\\u0000"', '"\\u001b[31m"', f'"{HUGE}"', '"2ep"', '"0.5"', '"../../x"', '"a\\nb"', "0", "1", "-1",
    "2", "0.5", "1e400", "-0.0", "nan", "-inf", "9999999999999999999999999", "0xff", "true", "false", "[]",
    '["a", "b"]', '["a", 1]', "[[]]", "{}", "{a = 1}", "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "", "'''",
    '"', "x", "1_000", "00", "=",
)  # fmt: skip
TABLES = (
    "[run]", "[[run]]", "[method]", '[sparsity."0.9"]', '[sparsity."x"]', '[sparsity."nan"]', '[sparsity."-1"]',
    '[sparsity."1e400"]', "[sparsity]", "[sparsity.0.9]", "[x]", "[", "[method.prior]", '[sparsity."0.9".method]',
)  # fmt: skip
COMMANDS = (
    "presets show {file}",
    "presets show {file}",
    "presets show {file} -s 0.9 --json",
    f"prune --preset {{file}} -o out -s 0.5 {SHORT}",
    "prune --preset {file} -o out",
    f"prune --preset {{file}} --method gmp -s 0.9 -o out {SHORT}",
    f"finetune --preset {{file}} -o out {SHORT}",
    "sweep --preset {file} -o out -s 0.5 -n 1",
)


def draw_case(draw: Random) -> Case:
    lines = [*HEAD, "[run]", *RUN, *([] if draw.random() < 0.1 else ["[method]", *METHOD])]
    if draw.random() < 0.3:
        lines += ['[sparsity."0.5"]', "learning_rate = 1e-4", "method.every = 1"]
    for _ in range(draw.choices((0, 1, 2, 3), (1, 10, 5, 2))[0]):
        at = draw.randrange(len(lines) + 1)
        change = draw.randrange(5)
        if change < 3:
            _set(draw, lines, at)
        elif change == 3:
            lines.insert(at, draw.choice(TABLES))
        elif lines[at:]:
            del lines[at]
    recipe: dict = {"text": "\n".join(lines) + "\n", "encoding": draw.choices(ENCODINGS, WEIGHTS)[0]}
    if draw.random() < 0.15:
        recipe["edits"] = [draw.choice(_DAMAGE)(draw)]
    name = draw.choice(("p.toml",) * 8 + ("é.toml", "a b.toml"))
    words = [word.replace("{file}", f"./{name}") for word in draw.choice(COMMANDS).split()]
    return Case(area="presets", words=words, files={name: recipe})


def _set(draw: Random, lines: list[str], at: int) -> None:
    """A value for a key, mostly in the table where the key belongs, and in the place of the one that it had."""
    key = _key(draw)
    table = "[run]" if key in RUN_KEYS else "[method]"
    if draw.random() < 0.8 and table in lines:
        lines[:] = [line for line in lines if not line.startswith(f"{key} =")]
        at = lines.index(table) + 1
    lines.insert(at, f"{key} = {_value(draw)}")


ENCODINGS, WEIGHTS = ("utf-8", "utf-8-sig", "utf-16", "latin-1"), (20, 1, 1, 1)
_DAMAGE = (
    lambda draw: ["cut", draw.random()],
    lambda draw: ["flip", draw.random(), draw.randrange(1, 256)],
    lambda draw: ["insert", draw.random(), draw.choice(("\x00", "\ud800", "[" * 3_000, "a." * 3_000, "\r", '"""'))],
)


def _key(draw: Random) -> str:
    kind = METHODS[draw.choice(list(METHODS))]
    of_method = draw.choice(fields(kind)).name  # type: ignore[arg-type]
    odd = draw.choice(("x", '""', "a.b", "method.method", "prior.x", "output", "method", "sparsity", "run", "é"))
    return draw.choice((draw.choice(list(RUN_KEYS)), draw.choice(list(RUN_KEYS)), of_method, of_method, odd))


def _value(draw: Random) -> str:
    if draw.random() < 0.2:
        known = draw.choice(LIKELY[draw.choice(("task", "method", "precision", "optimizer", "report_to"))])
        return f'"{known}"'
    if draw.random() < 0.1:
        return "'" + draw.choice([text for text in TEXTS if "'" not in text and "\udcff" not in text]) + "'"
    return draw.choice(VALUES)
