"""How small a model becomes: BERT-base's proportions at 90%, in small. benchmarks/sizes.py measures the real one."""

import pytest
import torch
from transformers import BertConfig, BertModel

from mgpp.artifact import save_sparse
from mgpp.functional.select import zero_smallest_
from mgpp.targets import find_targets

pytest.importorskip("zstandard")


@pytest.fixture(scope="module")
def model() -> BertModel:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=6_000, hidden_size=256, num_hidden_layers=8, num_attention_heads=4, intermediate_size=1024
    )
    made = BertModel(config)
    weights = [weight.data for weight in find_targets(made).values()]
    prunable, total = sum(weight.numel() for weight in weights), sum(p.numel() for p in made.parameters())
    assert prunable / total == pytest.approx(84.9 / 109.5, abs=0.01)
    zero_smallest_(weights, int(0.9 * prunable))
    return made


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ({}, 3.0),
        ({"zstd": True}, 3.1),
        ({"values": "bf16", "zstd": True}, 8.0),
        (
            {"values": "int8", "embeddings": "int8", "zstd": True},
            11.5,
        ),  # 12.5 at full size, where the header weighs nothing
    ],
    ids=str,
)
def test_a_model_at_90_percent_becomes_this_many_times_smaller(options, times, model, tmp_path):
    summary = save_sparse(model, tmp_path, **options)
    dense = sum(parameter.nbytes for parameter in model.parameters())
    assert summary["dense_bytes"] == dense
    assert dense / summary["bytes"] >= times
    assert summary["ratio"] == pytest.approx(dense / summary["bytes"], abs=1e-3)
