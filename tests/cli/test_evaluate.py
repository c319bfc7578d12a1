"""`mgpp evaluate`: what a run's folder says of its model need not be said again, and rows are called what they are."""

import json
from pathlib import Path

import pytest

pytest.importorskip("datasets")

from mgpp.cli import main
from mgpp.cli.evaluate import SCORING
from tests.tiny import documents, reviews, write_csv, write_jsonl

SHORT = ["--method=none", "--max-steps=2", "--batch-size=8", "--lr=5e-3", "--device=cpu", "--no-score-before"]


def trained(model: Path, data: Path, output: Path, *options: str) -> Path:
    assert main(["prune", str(model), str(data), "-o", str(output), *SHORT, *options]) == 0
    return output


def scored(model: Path, data: Path, capsys: pytest.CaptureFixture, *options: str) -> dict:
    capsys.readouterr()
    assert main(["evaluate", str(model), str(data), "--device=cpu", "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def stars(tmp_path: Path) -> Path:
    """Reviews in columns that no task would guess."""
    folder = tmp_path / "stars"
    for name, seed in (("train", 1), ("validation", 2)):
        rows = [{"opinion": row["text"], "stars": row["label"]} for row in reviews(24, seed=seed)]
        write_jsonl(folder / f"{name}.jsonl", rows)
    return folder


def test_columns_and_lengths_are_the_runs_own(tiny_bert, stars, tmp_path, capsys):
    how = ["--text=opinion", "--label=stars", "--max-length=6"]
    out = trained(tiny_bert, stars, tmp_path / "out", *how)
    result = json.loads((out / "result.json").read_text())
    assert scored(out, stars, capsys)["metrics"] == result["after"]
    assert scored(out, stars, capsys, "--max-length=4")["metrics"] != result["after"]
    assert main(["evaluate", str(out), str(stars), "--device=cpu"]) == 0
    told = "as its run was scored: task text, text opinion, label stars, max_length 6"
    assert told in capsys.readouterr().err


def test_the_task_is_the_runs_own_and_another_is_taken_without_the_runs_settings(tiny_bert, tmp_path, capsys):
    data = write_jsonl(tmp_path / "texts.jsonl", [{"body": row["text"]} for row in documents(24)])
    out = trained(tiny_bert, data, tmp_path / "out", "--task=mlm", "--text=body", "--max-length=16")
    result = scored(out, data, capsys)
    assert (result["task"], result["metric"]) == ("mlm", "perplexity")
    assert main(["evaluate", str(out), str(data), "--task=text", "--device=cpu"]) == 2
    assert "as its run was scored" not in capsys.readouterr().err


def test_rows_of_a_lone_file_are_called_by_its_name(tiny_bert, tiny_reviews, tmp_path, capsys):
    out = trained(tiny_bert, tiny_reviews, tmp_path / "out")
    rows = write_csv(tmp_path / "new.csv", reviews(8))
    assert scored(out, rows, capsys)["notes"][-1] == "scored on the 8 rows of new.csv"
    (tmp_path / "bad.csv").write_text("text,label\n,1\n", encoding="utf-8")
    assert main(["evaluate", str(out), str(tmp_path / "bad.csv"), "--device=cpu"]) == 2
    assert "row 0 of bad.csv has no text" in capsys.readouterr().err


def test_pairs_are_no_rows_for_a_model_that_learnt_from_single_texts(tiny_bert, tiny_reviews, tmp_path, capsys):
    out = trained(tiny_bert, tiny_reviews, tmp_path / "out")
    pairs = [{"sentence1": row["text"], "sentence2": "a film", "label": row["label"]} for row in reviews(24)]
    data = write_jsonl(tmp_path / "pairs.jsonl", pairs)
    capsys.readouterr()
    assert main(["evaluate", str(out), str(data), "--device=cpu"]) == 2
    told = f"{out} learnt from single texts (text) and {data} would be read as pairs (sentence1 + sentence2): say which"
    assert told in capsys.readouterr().err
    assert scored(out, data, capsys, "--text=sentence1")["rows"] == 24
    again = trained(tiny_bert, data, tmp_path / "again")
    assert main(["evaluate", str(again), str(tiny_reviews), "--device=cpu"]) == 2
    assert "learnt from pairs (sentence1 + sentence2)" in capsys.readouterr().err
    other = write_jsonl(
        tmp_path / "other.jsonl", [{"sentence": row["text"], "label": row["label"]} for row in reviews(8)]
    )
    assert scored(out, other, capsys)["rows"] == 8


def test_who_scores_a_model_on_the_file_that_it_learnt_from_is_told(tiny_bert, tmp_path, capsys):
    rows = write_csv(tmp_path / "rows.csv", reviews(24))
    out = trained(tiny_bert, rows, tmp_path / "out")
    assert scored(out, rows, capsys)["notes"][-1] == "the model's run learnt from this very file"


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"config": 3}', '{"config": {"task": ["text"]}}', '{"config": {}, "texts": 3}']
)
def test_a_damaged_memory_is_named(content, tiny_bert, tiny_reviews, tmp_path, capsys):
    out = trained(tiny_bert, tiny_reviews, tmp_path / "out")
    (out / "run.json").write_text(content, encoding="utf-8")
    capsys.readouterr()
    assert main(["evaluate", str(out), str(tiny_reviews), "--device=cpu"]) == 2
    assert "should say how" in capsys.readouterr().err


def test_what_only_training_reads_is_no_option_of_scoring():
    assert not {"unlabelled", "train_split", "holdout"} & set(SCORING)
