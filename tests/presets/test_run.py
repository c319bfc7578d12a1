"""Shipped presets run: on a tiny model and tiny data, with nothing changed but what their size demands."""

import json
from pathlib import Path

import pytest

pytest.importorskip("datasets")

from mgpp.cli import main
from tests.tiny import PRUNABLE, reviews, write_jsonl

SMALL = ["--max-length=16", "--batch-size=4", "--accumulate=1", "--logging-steps=1", "--save-steps=100", "--device=cpu"]
RAMP = ["--max-steps=8", "--set=start=1", "--set=end=6", "--set=every=1"]


@pytest.fixture
def called(tmp_path, capsys):
    def call(command: str, *words: str, output: str = "out") -> dict:
        assert main([command, *words, "--output", str(tmp_path / output), *SMALL, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return call


@pytest.fixture
def sst2(tmp_path) -> Path:
    for split, count in (("train", 32), ("validation", 8)):
        rows = [{"sentence": row["text"], "label": row["label"]} for row in reviews(count, seed=count)]
        write_jsonl(tmp_path / "sst2" / f"{split}.jsonl", rows)
    return tmp_path / "sst2"


@pytest.mark.parametrize("name", ["deberta-v3-base/sst2", "deberta-v3-base/l2-sst2", "deberta-v3-base/pa-sst2"])
def test_a_row_and_its_ablations_prune(name, called, tiny_bert, sst2):
    words = ["--preset", name, "--sparsity", "0.9", "--model", str(tiny_bert), "--data", str(sst2), *RAMP]
    more = ["--set=prune_at=7", "--set=exact=true"] if "/pa-" in name else []
    result = called("prune", *words, *more)
    assert (result["zeros"], result["metric"]) == (int(0.9 * PRUNABLE), "accuracy")
    assert result["config"]["learning_rate"] == {"l2": 5e-5, "pa": 2e-5}.get(name.partition("/")[2][:2], 1e-4)


def test_the_two_stages_of_upstream_pruning_end_as_sparse_as_the_first(called, tiny_bert, tiny_corpus, sst2, tmp_path):
    words = ["--preset", "bert-base/upstream", "--model", str(tiny_bert), "--data", str(tiny_corpus)]
    first = called("prune", *words, *RAMP, output="upstream")
    assert (first["zeros"], first["metric"]) == (int(0.9 * PRUNABLE), "perplexity")
    words = ["--preset", "bert-base/upstream-sst2", "--model", str(tmp_path / "upstream"), "--data", str(sst2)]
    second = called("finetune", *words, "--epochs=1")
    assert (second["zeros"], second["method"]["method"]) == (first["zeros"], "hold_mask")


def test_a_decoder_is_pruned_by_a_preset_of_ours(called, tiny_llama, tiny_corpus):
    words = ["--preset", "smollm2-135m/clm", "--sparsity", "0.5", "--model", str(tiny_llama)]
    result = called("prune", *words, "--data", str(tiny_corpus), *RAMP)
    assert (result["sparsity"], result["metric"]) == (0.5, "perplexity")
