"""In a notebook a pruner and results are tables; in code they are what they always were."""

import json

import mgpp
from mgpp.notebook import ComparisonResult, RunResult
from tests.report.test_page import Reader
from tests.test_contract import STEPS, method_of
from tests.toy import Toy

RESULT = {
    "method": {"method": "mgpp"}, "target_sparsity": 0.9, "before": {"accuracy": 0.5}, "after": {"accuracy": 0.8},
    "sparsity": 0.9, "zeros": 90, "prunable": 100, "seconds": 3.0, "config": {"output": "<out>"},
}  # fmt: skip


def test_a_pruner_shows_its_method_its_counts_and_its_layers():
    model = Toy()
    pruner = mgpp.Pruner(model, method_of("mgpp"), total_steps=STEPS, train_size=64)
    model.blocks[0][0].weight.data.zero_()
    text = Reader(pruner._repr_html_()).text
    for told in ("Pruner: MGPP", "0 of 20", "0.2500", "96 of 384", "blocks.0.0.weight", "100.00%", "spike_var"):
        assert told in text
    assert "Pruner(MGPP(" in repr(pruner)


def test_a_result_is_a_dict_that_shows_itself():
    result = RunResult(RESULT)
    assert result == RESULT
    assert json.loads(json.dumps(result)) == RESULT
    text = Reader(result._repr_html_()).text
    for told in ("MGPP at 0.9", "0.8000", "90 of 100", "<out>"):
        assert told in text
    assert "–" not in text
    assert "–" in Reader(RunResult({**RESULT, "before": {}})._repr_html_()).text
    assert "dense" in RunResult({**RESULT, "method": None})._repr_html_()


def test_a_comparison_shows_means_and_spreads():
    lines = [
        {"method": None, "sparsity": 0.0, "mean": 0.9, "std": 0.01, "runs": 2, "of": 2},
        {"method": "gmp", "sparsity": 0.5, "mean": None, "std": None, "runs": 0, "of": 2},
    ]
    text = Reader(ComparisonResult(metric="accuracy", summary=lines)._repr_html_()).text
    for told in ("dense", "0.9000 ± 0.0100", "gmp", "–", "0 of 2"):
        assert told in text
