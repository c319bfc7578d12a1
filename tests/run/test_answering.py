"""Question answering from rows to a pruned model that answers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForQuestionAnswering

pytest.importorskip("datasets")

import mgpp
from mgpp.run import RunConfig, evaluate, run
from tests.tiny import PRUNABLE


@pytest.fixture
def config(tiny_bert: Path, tiny_questions: Path, tmp_path: Path) -> RunConfig:
    """Windows shorter than the contexts, so that a question has two."""
    return RunConfig(
        task="squad",
        model=str(tiny_bert),
        data=str(tiny_questions),
        output=str(tmp_path / "out"),
        method=mgpp.MGPP(sparsity=0.75, start=0.2, end=0.8, every=2),
        max_steps=60,
        batch_size=16,
        learning_rate=1e-2,
        max_length=16,
        doc_stride=3,
        device="cpu",
    )


def test_a_pruned_model_learns_to_answer_and_is_scored_the_same_when_loaded_again(config):
    result = run(config)
    assert result["zeros"] == int(0.75 * PRUNABLE)
    assert result["train_rows"] == 192  # n is the number of windows
    assert result["after"]["loss"] < result["before"]["loss"]
    assert result["after"]["f1"] > result["before"]["f1"] + 0.3
    assert result["metric"] == "f1"
    again = evaluate(config.output, config.source, task="squad", device="cpu")
    assert again["metrics"] == result["after"]
    assert again["zeros"] == result["zeros"]
    model = AutoModelForQuestionAnswering.from_pretrained(config.output)
    zeros = sum(int((w == 0).sum()) for n, w in model.named_parameters() if "encoder.layer" in n and w.dim() == 2)
    assert zeros == result["zeros"]
    card = (Path(config.output) / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: question-answering" in card
    assert "AutoModelForQuestionAnswering" in card


def test_a_dense_model_answers_everything_and_can_teach(config, tmp_path):
    dense = replace(config, method=None, output=str(tmp_path / "dense"))
    assert run(dense)["after"]["exact_match"] == 1.0
    taught = run(replace(config, max_steps=10, accumulate=2, teacher=dense.output))
    assert taught["teacher"]["model"] == dense.output
    assert taught["zeros"] == int(0.75 * PRUNABLE)


def test_length_grouping_and_bf16_change_neither_windows_nor_sparsity(config):
    result = run(replace(config, max_steps=10, group_by_length=True, precision="bf16"))
    assert (result["zeros"], result["eval_rows"]) == (int(0.75 * PRUNABLE), 48)
    assert all(torch.isfinite(torch.tensor(value)) for value in result["after"].values())
