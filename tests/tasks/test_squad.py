"""SQuAD's rows become windows and a score, or a line that says what is wrong with them."""

import copy
import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering, BertConfig, BertForSequenceClassification, EvalPrediction

datasets = pytest.importorskip("datasets")

from mgpp.tasks import Source, evaluation_task, training_task  # noqa: E402
from mgpp.tasks.pretrained import find_pretrained  # noqa: E402
from tests.tiny import save_tiny_bert, write_jsonl  # noqa: E402
from tests.tiny_tasks import questions  # noqa: E402


def task_of(model, rows, folder, **source):
    data = write_jsonl(folder / "rows.jsonl", rows)
    return training_task(
        "squad", str(model), Source(data=str(data), **{"max_length": 32, "doc_stride": 4, **source}), seed=0
    )


def oracle(task) -> EvalPrediction:
    """A model that is sure of the right positions."""
    width = max(len(ids) for ids in task.evaluation["input_ids"])
    logits = np.full((2, len(task.evaluation), width), -5.0, dtype=np.float32)
    for number in range(len(task.evaluation)):
        row = task.evaluation[number]
        logits[0, number, row["start_positions"]] = logits[1, number, row["end_positions"]] = 5.0
    return EvalPrediction(predictions=tuple(logits), label_ids=None)


def test_windows_are_counted_and_an_oracle_answers_all_of_them(tiny_bert, tmp_path):
    task = task_of(tiny_bert, questions(20, words=40), tmp_path, holdout=0.5)
    assert len(task.train) > 10
    assert set(task.train.column_names) == {
        "input_ids",
        "token_type_ids",
        "attention_mask",
        "start_positions",
        "end_positions",
    }
    assert max(len(ids) for ids in task.train["input_ids"]) == 32
    assert task.compute_metrics(oracle(task)) == {"exact_match": 1.0, "f1": 1.0}
    assert task.notes[0] == (
        f"windows of 32 tokens that share 4: {len(task.train)} to learn 10 from, {len(task.evaluation)} to answer 10 "
        "questions from"
    )


@pytest.mark.parametrize(("version", "is_told"), [("0.23.2", True), ("0.23.3", False), ("0.22.2", False)])
def test_a_tokenizer_that_loses_the_end_of_a_text_is_told_of(tiny_bert, tmp_path, monkeypatch, version, is_told):
    monkeypatch.setattr("tokenizers.__version__", version)
    notes = task_of(tiny_bert, questions(20, words=40), tmp_path, holdout=0.5).notes
    told = [note for note in notes if "install 0.23.3" in note]
    assert [note.startswith(f"tokenizers {version} leaves") for note in told] == [True] * is_told


def test_the_default_length_is_squads(tiny_bert, tmp_path):
    data = write_jsonl(tmp_path / "rows.jsonl", questions(4))
    with pytest.raises(ValueError, match="max_length=384 is more than the 128 tokens that the model"):
        training_task("squad", str(tiny_bert), Source(data=str(data)), seed=0)


def test_the_best_of_several_answers_counts(tiny_bert, tmp_path):
    rows = questions(4)
    for row in rows:
        row["answers"]["text"].append("the")
        row["context"] += " the"
        row["answers"]["answer_start"].append(len(row["context"]) - 3)
    task = task_of(tiny_bert, rows, tmp_path, holdout=0.5)
    assert task.compute_metrics(oracle(task))["exact_match"] == 1.0


def test_answers_may_be_a_list_of_pairs(tiny_bert, tmp_path):
    rows = questions(6)
    flat = [
        {**row, "answers": [{"text": row["answers"]["text"][0], "answer_start": row["answers"]["answer_start"][0]}]}
        for row in rows
    ]
    one, other = task_of(tiny_bert, rows, tmp_path / "one"), task_of(tiny_bert, flat, tmp_path / "other")
    assert one.train["start_positions"][:] == other.train["start_positions"][:]


def test_columns_may_have_other_names(tiny_bert, tmp_path):
    rows = [{"q": row["question"], "c": row["context"], "a": row["answers"]} for row in questions(6)]
    assert len(task_of(tiny_bert, rows, tmp_path, text="q", text_pair="c", label="a").train) == 5


def test_padding_stands_on_the_right_even_where_the_tokenizer_pads_on_the_left(tmp_path):
    model = save_tiny_bert(tmp_path / "bert")
    settings = model / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "padding_side": "left"}))
    task = task_of(model, [*questions(3, words=4), *questions(3, words=9)], tmp_path)
    assert task.tokenizer.padding_side == "left"
    features = [task.train[number] for number in range(len(task.train))]
    batch = task.collate(features)
    assert set(batch["input_ids"][:, 0].tolist()) == {task.tokenizer.cls_token_id}
    for number, feature in enumerate(features):
        first = batch["start_positions"][number]
        assert batch["input_ids"][number, first] == feature["input_ids"][feature["start_positions"]]


def test_a_classifiers_three_labels_do_not_widen_the_head(tiny_bert, tmp_path):
    config = BertConfig.from_pretrained(tiny_bert, num_labels=3)
    model = tmp_path / "classifier"
    BertForSequenceClassification(config).save_pretrained(model)
    find_pretrained(str(tiny_bert)).tokenizer.save_pretrained(model)
    network = task_of(model, questions(4), tmp_path).load_model()
    assert network.qa_outputs.weight.shape == (2, 16)
    network.save_pretrained(tmp_path / "again")
    assert torch.equal(
        AutoModelForQuestionAnswering.from_pretrained(tmp_path / "again").qa_outputs.weight, network.qa_outputs.weight
    )


def changed(place: int, **changes) -> list[dict]:
    rows = copy.deepcopy(questions(4))
    rows[place] |= changes
    return rows


@pytest.mark.parametrize(
    ("rows", "source", "told"),
    [
        ([{"text": "x", "label": 0}] * 2, {}, r"train has no column 'question': it has text, label; .*\(--text\)"),
        (questions(4), {"label": "truth"}, r"train has no column 'truth': .*\(--label\)"),
        (changed(2, question=None), {}, "row 2 of train has no text in 'question'"),
        (changed(1, context=None), {}, "row 1 of train has no text in 'context'"),
        (changed(3, answers={"text": [], "answer_start": []}), {}, "row 3 of train has no answer in 'answers'"),
        (changed(3, answers=None), {}, "row 3 of train has no answer"),
        (
            changed(0, context="a dull film", answers={"text": ["film"], "answer_start": [6]}),
            {},
            "row 0 of train: the answer 'film' is not at character 6 of its context, where ' fil' is: it is at 7",
        ),
        (
            changed(0, answers={"text": ["nowhere"], "answer_start": [0]}),
            {},
            "row 0 of train: the answer 'nowhere' is not at character 0 .*: it is nowhere in it",
        ),
        (changed(0, answers={"text": ["the"], "answer_start": [-3]}), {}, "is not at character -3"),
        (changed(0, answers={"text": [" "], "answer_start": [3]}), {}, "row 0 of train: the answer ' ' is blank"),
        ([{**row, "answers": "the"} for row in questions(2)], {}, r"row 0 of train: answers='the' is not \{'text'"),
        (questions(4), {"doc_stride": 25}, r"question of 4 tokens leaves 25 of max_length=32 .* doc_stride=25: raise"),
        (changed(1, question="the " * 40), {}, r"row \d of (train|validation): its question of 40 tokens leaves 0 of"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(rows, source, told, tiny_bert, tmp_path):
    with pytest.raises(ValueError, match=told):
        task_of(tiny_bert, rows, tmp_path, **source)


def test_a_model_that_never_learnt_to_answer_is_not_scored(tiny_bert, tiny_questions):
    with pytest.raises(ValueError, match="has no head that answers, so it cannot be scored: fine-tune it first"):
        evaluation_task("squad", str(tiny_bert), Source(data=str(tiny_questions)))


def test_a_model_without_such_a_head_and_a_slow_tokenizer_are_refused(tiny_bert, tmp_path, monkeypatch):
    import mgpp.tasks.squad as squad

    found = find_pretrained(str(tiny_bert))
    monkeypatch.setattr(type(found.tokenizer), "is_fast", property(lambda self: False))
    with pytest.raises(ValueError, match=r"is not a fast one \(tokenizer.json\)"):
        task_of(tiny_bert, questions(4), tmp_path)
    monkeypatch.setattr(squad.AutoModelForQuestionAnswering, "_model_mapping", {})
    with pytest.raises(ValueError, match="is a bert, and transformers has none for question answering"):
        task_of(tiny_bert, questions(4), tmp_path)
