"""Rows come from files, folders and the hub, and what cannot be read is said in one line."""

import json
from pathlib import Path

import pytest

datasets = pytest.importorskip("datasets")

from mgpp.tasks.rows import hold_out, load_splits  # noqa: E402
from tests.tiny import reviews, write_csv, write_jsonl  # noqa: E402

ROWS = reviews(6)


def test_every_format_gives_the_same_rows(tmp_path):
    parquet = tmp_path / "rows.parquet"
    datasets.Dataset.from_list(ROWS).to_parquet(parquet)
    as_list = tmp_path / "rows.json"
    as_list.write_text(json.dumps(ROWS), encoding="utf-8")
    files = [parquet, as_list, write_csv(tmp_path / "rows.csv", ROWS), write_jsonl(tmp_path / "rows.jsonl", ROWS)]
    for file in files:
        assert load_splits(str(file))["train"].to_list() == ROWS, file


def test_a_folder_gives_its_files_as_splits_and_shards_as_one(tmp_path):
    write_jsonl(tmp_path / "train-00000-of-00002.jsonl", ROWS[:2])
    write_jsonl(tmp_path / "train-00001-of-00002.jsonl", ROWS[2:])
    write_jsonl(tmp_path / "validation.jsonl", ROWS[:1])
    (tmp_path / "README.md").write_text("not data")
    splits = load_splits(str(tmp_path))
    assert splits["train"].to_list() == ROWS
    assert splits["validation"].to_list() == ROWS[:1]


def test_the_words_na_and_null_in_a_csv_are_words(tmp_path):
    rows = [{"text": text, "label": 0} for text in ("NA", "null", "None", "nan")]
    file = write_csv(tmp_path / "rows.csv", rows)
    assert load_splits(str(file))["train"]["text"][:] == ["NA", "null", "None", "nan"]


def test_held_out_rows_are_the_same_for_the_same_seed_and_no_row_is_in_both():
    rows = datasets.Dataset.from_list([{"text": str(number), "label": 0} for number in range(50)])
    rest, held = hold_out(rows, share=0.1, seed=3)
    again = hold_out(rows, share=0.1, seed=3)[1]
    assert held["text"][:] == again["text"][:]
    assert (len(rest), len(held)) == (45, 5)
    assert set(rest["text"]) | set(held["text"]) == set(rows["text"])


def test_at_least_one_row_is_held_out_and_one_is_left():
    rows = datasets.Dataset.from_list(ROWS[:2])
    assert [len(part) for part in hold_out(rows, share=0.01, seed=0)] == [1, 1]
    assert [len(part) for part in hold_out(rows, share=0.99, seed=0)] == [1, 1]
    with pytest.raises(ValueError, match="one row cannot be split"):
        hold_out(rows.select([0]), share=0.1, seed=0)


def empty_csv(folder: Path) -> Path:
    path = folder / "empty.csv"
    path.write_text("text,label\n", encoding="utf-8")
    return path


def damaged_parquet(folder: Path) -> Path:
    path = folder / "damaged.parquet"
    path.write_bytes(b"PAR1 but no more")
    return path


def unknown_kind(folder: Path) -> Path:
    path = folder / "rows.xlsx"
    path.write_bytes(b"x")
    return path


def empty_folder(folder: Path) -> Path:
    return folder


def two_kinds(folder: Path) -> Path:
    write_jsonl(folder / "both" / "train.jsonl", ROWS)
    write_csv(folder / "both" / "train.csv", ROWS)
    return folder / "both"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (empty_csv, "empty.csv has no rows: a first line"),
        (damaged_parquet, "damaged.parquet cannot be read as parquet"),
        (unknown_kind, "rows.xlsx is no .parquet"),
        (empty_folder, "holds no data file"),
        (two_kinds, "holds train twice: train.csv, train.jsonl"),
        (lambda folder: folder / "absent.csv", "absent.csv is not there"),
    ],
)
def test_what_cannot_be_read_is_named(make, told, tmp_path):
    with pytest.raises((ValueError, OSError), match=told) as caught:
        load_splits(str(make(tmp_path)))
    assert "\n" not in str(caught.value)


def test_a_hub_name_may_carry_a_subset(monkeypatch):
    asked, streamed = [], []

    def load_dataset(*address, streaming):
        asked.append(address)
        streamed.append(streaming)
        if address != ("glue", "sst2"):
            raise FileNotFoundError("no such data set")
        return {"train": datasets.Dataset.from_list(ROWS)}

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert load_splits("glue/sst2")["train"].to_list() == ROWS
    assert asked == [("glue/sst2",), ("glue", "sst2")]
    with pytest.raises(OSError, match="'nyu-mll/glue/sst2' is no local file or folder, and loading it from the"):
        load_splits("nyu-mll/glue/sst2")
    assert asked[-1] == ("nyu-mll/glue", "sst2")
    assert not any(streamed)
    load_splits("glue/sst2", stream=True)
    assert streamed[-1]


@pytest.mark.parametrize("name", ["rows.csvv", "rows.parqet", "data/train.jsnl"])
def test_a_misspelt_ending_is_no_hub_name(name, monkeypatch):
    monkeypatch.setattr(datasets, "load_dataset", lambda *address, **how: pytest.fail("the hub was asked"))
    with pytest.raises(FileNotFoundError, match=f"{name} is not there: give a file"):
        load_splits(name)


def test_a_name_that_the_hub_does_not_know_may_be_meant_for_one_that_is_here(tmp_path, monkeypatch):
    def load_dataset(*address, streaming):
        raise FileNotFoundError(f"Dataset {address[0]} is not cached in None")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews").mkdir()
    with pytest.raises(OSError, match=r"\(Dataset revews is not cached\): did you mean reviews\? else check the name"):
        load_splits("revews")
    with pytest.raises(OSError, match=r"\(Dataset imdb is not cached\): check the name"):
        load_splits("imdb")


def test_no_network_is_one_line():
    with pytest.raises(OSError, match="check the name and the connection") as caught:
        load_splits("nobody/nothing-of-this-name")
    assert "\n" not in str(caught.value)
