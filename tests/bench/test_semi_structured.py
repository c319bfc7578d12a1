"""The benchmark's arithmetic, on a CPU, where nothing is compressed."""

import pytest
import torch
from transformers import BertConfig, BertModel

from mgpp.bench import semi_structured
from mgpp.cli import main
from mgpp.runtime.semi_structured import is_two_of_four

SMALL = BertConfig(vocab_size=30_000, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2)


def test_every_case_has_a_dense_and_a_sparse_row_of_the_same_zeros(monkeypatch):
    seen = []

    def stand_in(model):
        seen.append(model)
        return model

    monkeypatch.setattr(semi_structured, "to_semi_structured", stand_in)
    rows = semi_structured._measure(
        torch.device("cpu"),
        2,
        tokens=(3, 5),
        linears={"small": (32, 64)},
        whole={"bert": semi_structured.Whole(lambda: BertModel(SMALL), 2, 8)},
    )
    ways = ["dense", "2:4", "dense, recorded", "2:4, recorded"]
    names = [f"{case}: {way}" for case in ("small", "small", "bert, whole") for way in ways]
    assert [row["name"] for row in rows] == names
    assert [row["tokens"] for row in rows] == [3] * 4 + [5] * 4 + [16] * 4
    assert [row["apart"] for row in rows] == [None, 0.0] * 6
    assert rows[0]["weight_bytes"] == 32 * 64 * 2
    assert rows[8]["weight_bytes"] == 6 * 64 * 64 * 2
    assert all(is_two_of_four(model[0].weight) for model in seen[:2])
    assert is_two_of_four(seen[2].encoder.layer[0].attention.self.query.weight)
    assert not is_two_of_four(seen[2].pooler.dense.weight)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there it would run")
def test_without_a_gpu_it_is_refused_in_one_line(capsys):
    assert main(["bench", "semi-structured"]) == 2
    assert "2:4 runs on a GPU" in capsys.readouterr().err
