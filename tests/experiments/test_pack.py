"""A packed model is the model again, and one for a few tasks is it for their tokens."""

import json

import pytest
import torch
from experiments.weights.pack import pack, unpack
from safetensors.torch import load_file, save_file

WORDS = "embeddings.word_embeddings.weight"


@pytest.fixture
def model(tmp_path):
    torch.manual_seed(0)
    folder = tmp_path / "model"
    folder.mkdir()
    weights = {WORDS: torch.randint(-90, 90, (5000, 64)) * 0.02, "dense.weight": torch.randn(64, 64)}
    save_file({**weights, "dense.bias": torch.randn(64)}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"vocab_size": 5000, "pad_token_id": 1}))
    (folder / "README.md").write_text("A model.\n")
    return folder


@pytest.fixture
def features(tmp_path):
    """Of two tasks, with three tokens in all."""
    found = {"a": {"train.ids": [7, 4000], "validation.ids": [7]}, "b": {"train.ids": [7, 12]}}
    for name, parts in found.items():
        ids = {part: torch.tensor(tokens, dtype=torch.int32) for part, tokens in parts.items()}
        save_file({**ids, "train.labels": torch.tensor([4999])}, tmp_path / f"{name}.safetensors")
    return [tmp_path / f"{name}.safetensors" for name in found]


def again(model, tmp_path, **options):
    pack(model, tmp_path / "packed", **options)
    unpack(tmp_path / "packed", tmp_path / "again")
    return load_file(tmp_path / "again" / "model.safetensors")


def test_a_packed_model_is_the_same_to_the_bit(model, tmp_path):
    found = again(model, tmp_path)
    expected = load_file(model / "model.safetensors")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())
    assert (tmp_path / "again" / "README.md").read_text() == "A model.\n"


def test_tokens_of_the_features_keep_their_embeddings_and_numbers_and_the_file_is_small(model, features, tmp_path):
    pack(model, tmp_path / "whole")
    found = again(model, tmp_path, features=features)
    expected = load_file(model / "model.safetensors")
    used = [0, 1, 7, 12, 4000]  # and padding, with all before it: it keeps its number in the laboratory
    others = torch.ones(5000, dtype=torch.bool).index_fill(0, torch.tensor(used), False)
    assert torch.equal(found[WORDS][used], expected[WORDS][used])
    assert not found[WORDS][others].any()
    assert all(torch.equal(found[name], expected[name]) for name in expected if name != WORDS)
    assert (tmp_path / "packed").stat().st_size < 0.1 * (tmp_path / "whole").stat().st_size
    card = (tmp_path / "again" / "README.md").read_text()
    assert card.endswith("For a, b only: the embeddings of 5 tokens are as they were, the other rows are zero.\n")


def test_a_model_that_also_writes_words_is_not_cut_to_some_of_them(model, features, tmp_path):
    weights = load_file(model / "model.safetensors")
    save_file({**weights, "lm_head.weight": torch.randn(5000, 64)}, model / "model.safetensors")
    with pytest.raises(ValueError, match=f"{WORDS}, lm_head.weight; leave out --tokens"):
        pack(model, tmp_path / "packed", features=features)
