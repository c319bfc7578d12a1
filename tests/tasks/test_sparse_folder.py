"""A sparse folder is a model like any other to every task: the same weights under the task's head, the same scores."""

import json

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig

pytest.importorskip("datasets")

import mgpp
from mgpp.run import evaluate
from mgpp.tasks import Source
from mgpp.tasks.pretrained import find_pretrained


@pytest.fixture
def sparse_bart(tiny_bart, tmp_path):
    model = AutoModelForSeq2SeqLM.from_pretrained(tiny_bart)
    model.generation_config = GenerationConfig.from_dict(
        {**model.generation_config.to_dict(), "max_new_tokens": 3, "decoder_start_token_id": 2}
    )
    mgpp.save_sparse(model, tmp_path / "sparse", tokenizer=AutoTokenizer.from_pretrained(tiny_bart))
    return tmp_path / "sparse"


def test_an_encoder_decoder_keeps_weights_ties_and_generation_config(sparse_bart, tiny_bart):
    loaded = find_pretrained(str(sparse_bart)).load(AutoModelForSeq2SeqLM)
    expected = AutoModelForSeq2SeqLM.from_pretrained(tiny_bart)
    for name, value in expected.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name
    assert loaded.lm_head.weight is loaded.model.shared.weight
    assert loaded.generation_config.max_new_tokens == 3


def test_summaries_of_a_sparse_model_score_as_those_of_the_plain_one(tiny_bart, tiny_documents, tmp_path):
    model = AutoModelForSeq2SeqLM.from_pretrained(tiny_bart)
    mgpp.save_sparse(model, tmp_path, tokenizer=AutoTokenizer.from_pretrained(tiny_bart))
    source = Source(data=str(tiny_documents), max_length=32, target_length=8, beams=1)
    scores = [
        evaluate(str(folder), source, task="summarization", device="cpu")["metrics"] for folder in (tiny_bart, tmp_path)
    ]
    assert json.dumps(scores[0]) == json.dumps(scores[1])


def test_a_broken_sparse_folder_is_told_as_such(sparse_bart):
    file = sparse_bart / "model.sparse.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match="the file is damaged or was altered"):
        find_pretrained(str(sparse_bart)).load(AutoModelForSeq2SeqLM)
