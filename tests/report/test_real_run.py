"""What the other tests of this room make up is what a run writes: here is one that did run."""

from pathlib import Path

import pytest

pytest.importorskip("datasets")
pytest.importorskip("matplotlib")

import mgpp
from mgpp import report
from mgpp.report import figures
from mgpp.report.live import Watcher
from mgpp.run import RunConfig, run
from tests.report.test_page import Reader
from tests.tiny import RAMP


@pytest.fixture(scope="module")
def folder(tiny_bert, tiny_reviews, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("real") / "run"
    settings = {"max_steps": 10, "batch_size": 8, "logging_steps": 1, "save_steps": 5, "device": "cpu"}
    method = mgpp.MGPP(**RAMP)
    run(RunConfig(model=str(tiny_bert), data=str(tiny_reviews), output=str(output), method=method, **settings))
    return output


def test_its_page_has_every_answer(folder):
    text = Reader(report.make_page([report.read_run(folder)])).text
    assert "4,096 weights in 12 matrices, by MGPP, between steps 2 and 8 of 10, every 2." in text
    assert "75.00% (asked for: 75.00%): 3,072 weights are zero, 1,024 are left." in text
    assert "BertForSequenceClassification" in text


@pytest.mark.parametrize("name", ["weights", "sparsity", "loss", "regrowth", "spike", "layers"])
def test_every_figure_of_a_run_can_be_drawn(name, folder, tmp_path):
    (written,) = figures.write_figure(name, [folder], [tmp_path / "figure.png"])
    assert written.stat().st_size > 5000


def test_it_can_be_watched_when_it_is_over(folder):
    sight = Watcher(folder).look()
    assert (sight.step, sight.last, sight.is_finished) == (10, 10, True)
    assert {"sparsity", "cut", "warm_up", "came_back", "in_spike", "loss", "eval_accuracy"} <= sight.numbers.keys()
