"""Summarisation from rows to a pruned encoder-decoder that writes."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BartForConditionalGeneration,
    EncoderDecoderCache,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.models.bart.modeling_bart import BartEncoder

pytest.importorskip("datasets")
pytest.importorskip("rouge_score")

import mgpp
from mgpp import records
from mgpp.run import RunConfig, RunInterrupted, evaluate, run
from mgpp.tasks.generation import reads_in_place
from tests.tiny_tasks import BART_PRUNABLE


@pytest.fixture
def config(tiny_bart: Path, tiny_documents: Path, tmp_path: Path) -> RunConfig:
    return RunConfig(
        task="summarization",
        model=str(tiny_bart),
        data=str(tiny_documents),
        output=str(tmp_path / "out"),
        method=mgpp.MGPP(sparsity=0.75, start=0.2, end=0.8, every=2),
        max_steps=60,
        batch_size=16,
        learning_rate=1e-2,
        max_length=32,
        target_length=8,
        beams=3,
        device="cpu",
    )


def test_a_pruned_model_learns_to_sum_up_and_writes_the_same_when_loaded_again(config):
    result = run(replace(config, score_before=True))
    assert (result["zeros"], result["prunable"]) == (int(0.75 * BART_PRUNABLE), BART_PRUNABLE)
    assert result["after"]["loss"] < result["before"]["loss"]
    assert result["after"]["rougeLsum"] > result["before"]["rougeLsum"] + 0.3
    assert result["after"].keys() == {"loss", "rouge1", "rouge2", "rougeLsum"}
    again = evaluate(config.output, config.source, task="summarization", device="cpu")
    assert again["metrics"] == result["after"]
    assert again["zeros"] == result["zeros"]
    model, tokenizer = (
        AutoModelForSeq2SeqLM.from_pretrained(config.output),
        AutoTokenizer.from_pretrained(config.output),
    )
    assert (model.generation_config.num_beams, model.generation_config.max_length) == (3, 9)
    written = model.generate(**tokenizer("the film was great", return_tensors="pt"))
    assert tokenizer.decode(written[0], skip_special_tokens=True).startswith("the film was")


def test_writing_that_is_interrupted_goes_on_from_the_trained_model(config, monkeypatch, tmp_path):
    config = replace(config, max_steps=3, logging_steps=2, save_steps=100)
    whole = run(replace(config, output=str(tmp_path / "whole")))
    with monkeypatch.context() as patch:
        patch.setattr(BartForConditionalGeneration, "generate", interrupt)
        with pytest.raises(RunInterrupted, match="goes on with the scoring"):
            run(config)
    result = run(config, resume=True)
    assert (result["after"], result["zeros"]) == (whole["after"], whole["zeros"])
    for name in ("model.safetensors", "records.jsonl"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


def test_beams_write_the_same_where_what_they_read_is_not_copied(tiny_bart):
    model = BartForConditionalGeneration.from_pretrained(tiny_bart)
    torch.manual_seed(0)
    texts = torch.randint(5, model.config.vocab_size, (6, 20))
    with torch.no_grad():
        model.model.encoder.embed_tokens.weight.normal_()  # so that beams differ
    how = {"num_beams": 4, "num_return_sequences": 4, "max_length": 12, "do_sample": False, "output_scores": True}
    expected = model.generate(texts, **how, return_dict_in_generate=True)
    copied = []
    cross = EncoderDecoderCache.reorder_cache
    with pytest.MonkeyPatch.context() as patch, reads_in_place(model):
        patch.setattr(EncoderDecoderCache, "reorder_cache", lambda *args: copied.append(cross(*args)))
        found = model.generate(texts, **how, return_dict_in_generate=True)
    assert torch.equal(found.sequences, expected.sequences)
    assert torch.equal(found.sequences_scores, expected.sequences_scores)
    assert not copied
    assert not hasattr(model, "_reorder_cache")


def test_a_run_is_scored_so(config, monkeypatch):
    monkeypatch.setattr(EncoderDecoderCache, "reorder_cache", interrupt)
    assert run(replace(config, max_steps=1, beams=2))["after"]["rouge1"] >= 0


def test_summaries_are_written_once_unless_asked_for_before_training_too(config):
    result = run(replace(config, max_steps=2))
    assert result["before"] == {}
    assert result["after"].keys() == {"loss", "rouge1", "rouge2", "rougeLsum"}


def test_a_batch_is_written_in_the_runs_precision_encoder_included(config, monkeypatch):
    seen = []
    original = BartEncoder.forward

    def forward(self, *args, **kwargs):
        seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
        return original(self, *args, **kwargs)

    monkeypatch.setattr(BartEncoder, "forward", forward)
    evaluate(config.model, config.source, task="summarization", device="cpu", precision="bf16")
    # One batch: once for what is written, once for the loss.
    assert seen == [(False, True), (False, True)]
    seen.clear()
    evaluate(config.model, config.source, task="summarization", device="cpu")
    assert seen == [(False, False), (False, False)]


def test_bf16_length_grouping_and_a_teacher_change_no_count(config, tmp_path):
    dense = replace(config, method=None, max_steps=10, output=str(tmp_path / "dense"))
    assert run(dense)["zeros"] == 0
    result = run(replace(config, max_steps=10, precision="bf16", group_by_length=True, teacher=dense.output))
    assert result["zeros"] == int(0.75 * BART_PRUNABLE)


def test_a_teacher_continues_the_reference_and_not_the_document(config, tmp_path):
    """A teacher that is the model itself would teach it nothing: soft labels cost nothing where both agree."""
    dense = replace(config, method=None, output=str(tmp_path / "dense"))
    run(dense)
    same = {"model": dense.output, "max_steps": 1, "distil_weight": 1.0, "learning_rate": 1e-12}
    run(replace(config, method=None, teacher=dense.output, logging_steps=1, **same))
    first = next(record for record in records.read(Path(config.output) / "records.jsonl") if "loss" in record)
    assert first["loss"] < 0.2  # dropout alone; another continuation costs more than 1


def test_t5_with_an_output_matrix_of_its_own_is_saved_whole(config, tmp_path):
    """As flan-T5's: transformers ties it in every new model, and must not in this one."""
    model = tmp_path / "t5"
    AutoTokenizer.from_pretrained(config.model).save_pretrained(model)
    shape = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "vocab_size": 32}
    tokens = {"decoder_start_token_id": 1, "pad_token_id": 1, "eos_token_id": 2}
    network = T5ForConditionalGeneration(
        T5Config(**shape, **tokens, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    )
    network.lm_head.weight = torch.nn.Parameter(torch.randn(32, 16))
    network.all_tied_weights_keys.pop("lm_head.weight", None)
    network.save_pretrained(model)
    settings = {"model": str(model), "max_steps": 6, "max_length": 32, "source_prefix": "the "}
    result = run(replace(config, **settings))
    assert result["sparsity"] == int(0.75 * result["prunable"]) / result["prunable"]
    assert (
        evaluate(config.output, replace(config, **settings).source, task="summarization", device="cpu")["metrics"]
        == result["after"]
    )
    saved = AutoModelForSeq2SeqLM.from_pretrained(config.output)
    assert not torch.equal(saved.lm_head.weight, saved.shared.weight)
