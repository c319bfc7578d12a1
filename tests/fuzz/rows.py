"""Data files: rows with something wrong in them, written in a form and an encoding that may be wrong, too."""

import csv
import io
import json
import math
from random import Random
from typing import Any

from tests.fuzz.case import Case
from tests.fuzz.odd import HUGE, json_value
from tests.fuzz.words import QUICK, SHORT
from tests.tiny import documents as texts
from tests.tiny import reviews
from tests.tiny_tasks import documents, questions

Rows = list[dict[str, Any]]

# A task's rows, a command that learns from them and one that scores on them.
TASKS: dict[str, tuple[Any, str, str]] = {
    "text": (lambda: reviews(12), f"prune <bert> {{data}} -o out {QUICK}", "evaluate <run> {data}"),
    "stsb": (lambda: _pairs(float), f"prune <bert> {{data}} -o out {QUICK}", "evaluate <run> {data}"),
    "mrpc": (lambda: _pairs(int), f"prune <bert> {{data}} -o out {QUICK}", "evaluate <run> {data}"),
    "mlm": (lambda: texts(12), f"finetune <bert> {{data}} -o out {SHORT}", "evaluate <run> {data}"),
    "clm": (lambda: texts(12), f"prune <llama> {{data}} -o out {QUICK}", "evaluate <llama> {data} --max-length 16"),
    "squad": (
        lambda: questions(6),
        f"prune <bert> {{data}} -o out --doc-stride 2 {QUICK}",
        "evaluate <run> {data}",
    ),
    "xsum": (
        lambda: documents(6),
        f"prune <bart> {{data}} -o out --target-length 4 --beams 1 {QUICK}",
        "evaluate <bart> {data} --target-length 4 --beams 1 --max-length 16",
    ),
}
FORMS = ("jsonl", "jsonl", "jsonl", "json", "csv", "csv", "tsv", "parquet", "parquet", "txt")
ENCODINGS, WEIGHTS = ("utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-32"), (20, 2, 2, 2, 1)


def _pairs(kind: type) -> Rows:
    return [
        {"sentence1": row["text"], "sentence2": row["text"], "label": kind(row["label"])} for row in reviews(12, seed=3)
    ]


def draw_case(draw: Random) -> Case:
    task = draw.choices(list(TASKS), (6, 1, 1, 2, 2, 2, 1))[0]
    make, train, score = TASKS[task]
    files = {f"train.{draw.choice(FORMS)}": make()}
    if draw.random() < 0.3:
        files[f"validation.{draw.choice(FORMS)}"] = make()[:5]
    in_folder = len(files) > 1 or draw.random() < 0.3
    made = {f"data/{name}": _file(draw, name, rows) for name, rows in files.items()}
    place = "data" if in_folder else next(iter(made))
    if draw.random() < 0.03:
        place = draw.choice((f"{place}/", "data/", f"./{place}", "data/x.csv"))
    words = [*draw.choices((train, score), (1, 3))[0].replace("{data}", place).split(), "--task", task]
    for option, chance in (("--stream", 0.08), ("--new-head", 0.05), ("--group-by-length", 0.03), ("--json", 0.1)):
        if draw.random() < chance:
            words.append(option)
    if draw.random() < 0.1:
        words += [draw.choice(("--text", "--label", "--text-pair")), draw.choice(("text", "label", "x", "", "context"))]
    return Case(area="rows", words=words, files=made)


def _file(draw: Random, name: str, rows: Rows) -> dict[str, Any]:
    for _ in range(draw.choices((0, 1, 2), (2, 8, 3))[0]):
        rows = draw.choice(_CHANGES)(draw, rows)
    form = name.rpartition(".")[2]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    if form == "parquet":
        recipe = _parquet(draw, rows, columns)
    else:
        text = _TEXTS[form](draw, rows, columns)
        if draw.random() < 0.1:
            text = text.replace("\n", draw.choice(("\r", "\r\n", "\n\n", "\n \n", "\x00\n", "")))
        recipe = {"text": text, "encoding": draw.choices(ENCODINGS, WEIGHTS)[0]}
    if draw.random() < 0.2:
        recipe["edits"] = [_damage(draw)]
    return recipe


def _damage(draw: Random) -> list[Any]:
    noise = draw.choice(("\x00", "\x00" * 50, '"', "\ud800", "{", "]", ",,,,,", "\r", "é", "\ufeff", "[" * 3_000))
    return draw.choice(
        (
            ["cut", draw.random()],
            ["cut", 0.0],
            ["flip", draw.random(), draw.randrange(1, 256)],
            ["insert", draw.random(), noise],
        )
    )


# What is done to rows


def _cell(draw: Random, rows: Rows) -> Rows:
    if not rows or not any(rows):
        return rows
    at = draw.randrange(len(rows))
    column = draw.choice(list(rows[at]) or ["text"])
    return [{**row, column: json_value(draw)} if number == at else row for number, row in enumerate(rows)]


def _column(draw: Random, rows: Rows) -> Rows:
    column, value = draw.choice([*(rows[0] if rows else ()), "extra"]), json_value(draw)
    return [{**row, column: value} for row in rows]


def _each(draw: Random, rows: Rows) -> Rows:
    column = draw.choice([*(rows[0] if rows else ()), "extra"])
    return [{**row, column: json_value(draw)} for row in rows]


def _without(draw: Random, rows: Rows) -> Rows:
    column = draw.choice([*(rows[0] if rows else ()), "extra"])
    return [{key: value for key, value in row.items() if key != column} for row in rows]


def _renamed(draw: Random, rows: Rows) -> Rows:
    column = draw.choice([*(rows[0] if rows else ()), "extra"])
    name = draw.choice(("", " ", "x", "text", "label", "\x00", "é", "sentence", "__index_level_0__", HUGE))
    return [{(name if key == column else key): value for key, value in row.items()} for row in rows]


def _few(draw: Random, rows: Rows) -> Rows:
    return rows[: draw.choice((0, 1, 1, 2, 3))]


def _missing_in_some(draw: Random, rows: Rows) -> Rows:
    return [row if draw.random() < 0.7 or not row else dict(list(row.items())[1:]) for row in rows]


def _labels(draw: Random, rows: Rows) -> Rows:
    value = draw.choice(
        (("a", "b"), (0, 2), (1.0, 2.5), (-1, 1), (True, False), ("0", 1), (0, None), (10**30, 0), (0.0, math.nan))
    )
    return [{**row, "label": draw.choice(value)} for row in rows]


_CHANGES = (_cell, _cell, _column, _each, _without, _renamed, _few, _missing_in_some, _labels, _labels)


# How rows are written


def _jsonl(draw: Random, rows: Rows, columns: list[str]) -> str:
    lines = [json.dumps(row) for row in rows]
    if draw.random() < 0.1:
        lines.insert(
            draw.randrange(len(lines) + 1), draw.choice(("", "null", "[]", "1", "{", '{"text": 1}', "NaN", '"x"'))
        )
    return "\n".join(lines) + "\n"


def _json(draw: Random, rows: Rows, columns: list[str]) -> str:
    by_column = {column: [row.get(column) for row in rows] for column in columns}
    return json.dumps(draw.choice((rows, rows, {"data": rows}, by_column, rows[:1], None, 3)))


def _csv(draw: Random, rows: Rows, columns: list[str], *, between: str = ",") -> str:
    told = io.StringIO()
    writer = csv.writer(told, delimiter=between, lineterminator="\n")
    names = list(columns)
    if names and draw.random() < 0.15:
        names = draw.choice(([*names, names[0]], [names[0]] * len(names), [""] * len(names), names[:-1], [*names, "x"]))
    try:
        writer.writerow(names)
        writer.writerows([[row.get(column) for column in columns] for row in rows])
    except (csv.Error, UnicodeError):
        pass
    return told.getvalue()


def _tsv(draw: Random, rows: Rows, columns: list[str]) -> str:
    return _csv(draw, rows, columns, between="\t")


def _txt(draw: Random, rows: Rows, columns: list[str]) -> str:
    return "\n".join(str(next(iter(row.values()), "")) for row in rows) + "\n"


_TEXTS = {"jsonl": _jsonl, "json": _json, "csv": _csv, "tsv": _tsv, "txt": _txt}


def _parquet(draw: Random, rows: Rows, columns: list[str]) -> dict[str, Any]:
    """Arrow holds one type a column: values that do not fit are left out, as a writer would have had to."""
    table = [[column, _of_one_type([row.get(column) for row in rows])] for column in columns]
    if table and draw.random() < 0.1:
        table.append([table[0][0], table[-1][1]])
    return {"parquet": table}


def _of_one_type(values: list[Any]) -> list[Any]:
    first = next((value for value in values if value is not None), None)
    kept = [value if type(value) is type(first) else None for value in values]
    if isinstance(first, int) and not isinstance(first, bool):
        return [value if value is not None and abs(value) < 2**63 else None for value in kept]
    if isinstance(first, dict | list):
        return [value if json.dumps(value) == json.dumps(first) or _is_plain(value) else None for value in kept]
    if isinstance(first, str):
        return [value.replace("\ud800", "") if value is not None else None for value in kept]
    return kept


def _is_plain(value: Any) -> bool:
    """SQuAD's answers, whose values differ and whose types do not."""
    return isinstance(value, dict) and value.keys() == {"text", "answer_start"}
