"""Documents and summaries become features, settings to write by, and a score, or a line that says what is wrong."""

import json
import shutil

import numpy as np
import pytest
from transformers import EvalPrediction, GenerationConfig

pytest.importorskip("datasets")
pytest.importorskip("rouge_score")

from mgpp.tasks import Source, evaluation_task, training_task
from tests.tiny import write_jsonl
from tests.tiny_tasks import documents, save_tiny_bart


def task_of(model, rows, folder, *, task: str = "summarization", **source):
    data = write_jsonl(folder / "rows.jsonl", rows)
    settings = {"max_length": 32, "target_length": 10, "beams": 2, **source}
    return training_task(task, str(model), Source(data=str(data), **settings), seed=0)


def test_documents_are_cut_and_prefixed_and_labels_padded_out_of_the_loss(tiny_bart, tmp_path):
    rows = [
        {"document": "film " * 9, "summary": "great"},
        {"document": "plot", "summary": "the film was dull and cold"},
    ]
    task = task_of(tiny_bart, rows * 2, tmp_path, max_length=6, target_length=5, source_prefix="very ", holdout=0.5)
    tokens = task.tokenizer.convert_tokens_to_ids
    features = {tuple(row["input_ids"]): row["labels"] for part in (task.train, task.evaluation) for row in part}
    assert features == {
        (0, *tokens(["very", "film", "film", "film"]), 2): [0, *tokens(["great"]), 2],
        (0, *tokens(["very", "plot"]), 2): [0, *tokens(["the", "film", "was"]), 2],
    }
    batch = task.collate([{"input_ids": list(ids), "labels": labels} for ids, labels in features.items()])
    assert sorted(batch["labels"][batch["labels"] < 0].tolist()) == [-100, -100]
    assert "decoder_input_ids" not in batch  # the model's own affair


def test_summaries_are_scored_against_references_as_they_were_written(tiny_bart, tmp_path):
    long = "the film was great and the plot was very moving"
    task = task_of(tiny_bart, [{"document": "film", "summary": long}] * 4, tmp_path, target_length=4, holdout=0.5)
    written = task.tokenizer([long] * 2, return_tensors="np")["input_ids"]
    # As they come from several batches: filled up to one width.
    predictions = np.pad(written, ((0, 0), (0, 3)), constant_values=-100)
    assert task.compute_metrics(EvalPrediction(predictions=predictions, label_ids=None))["rougeLsum"] == 1.0
    cut = np.where(np.arange(written.shape[1]) < 5, written, task.tokenizer.pad_token_id)
    assert 0 < task.compute_metrics(EvalPrediction(predictions=cut, label_ids=None))["rougeLsum"] < 1


@pytest.mark.parametrize(
    ("task", "columns"), [("cnn_dailymail", ("article", "highlights")), ("xsum", ("document", "summary"))]
)
def test_benchmarks_know_their_columns(task, columns, tiny_bart, tmp_path):
    made = task_of(tiny_bart, documents(6, columns=columns), tmp_path, task=task)
    assert made.notes[0].startswith(
        f"documents from {columns[0]}, summaries from {columns[1]}, cut to 32 and 10 tokens"
    )
    other = [{"text": "film", "gist": "great"}] * 4
    with pytest.raises(ValueError, match=r"which columns hold .* has text, gist: name them \(--text and --label\)"):
        task_of(tiny_bart, other, tmp_path / "other", task=task)
    assert len(task_of(tiny_bart, other, tmp_path / "other", task=task, text="text", label="gist").train) == 3


# How a model writes


def with_generation(model, folder, **settings):
    shutil.copytree(model, folder)
    GenerationConfig(decoder_start_token_id=2, eos_token_id=2, pad_token_id=1, **settings).save_pretrained(folder)
    return folder


def test_a_models_own_habits_stay_and_are_told(tiny_bart, tmp_path):
    own = {"num_beams": 4, "max_length": 142, "min_length": 3, "length_penalty": 2.0, "forced_bos_token_id": 0}
    model = with_generation(tiny_bart, tmp_path / "cnn", early_stopping=True, no_repeat_ngram_size=3, **own)
    task = task_of(model, documents(4), tmp_path)
    assert task.notes[0].endswith(
        "written with 2 beams and the model's own min_length 3, length_penalty 2.0, no_repeat_ngram_size 3"
    )
    settled = task.load_model().generation_config
    assert (settled.num_beams, settled.max_length, settled.forced_bos_token_id) == (2, 11, 0)
    assert (task.generation.beams, task.generation.max_length) == (2, 11)


def test_what_contradicts_one_beam_is_dropped_so_that_the_model_can_be_saved(tiny_bart, tmp_path):
    model = with_generation(tiny_bart, tmp_path / "cnn", num_beams=4, early_stopping=True, length_penalty=2.0)
    network = task_of(model, documents(4), tmp_path, beams=1).load_model()
    network.save_pretrained(tmp_path / "saved")
    saved = GenerationConfig.from_pretrained(tmp_path / "saved")
    assert (saved.num_beams, saved.early_stopping, saved.length_penalty) == (1, None, None)


def test_a_sampler_is_scored_without_chance(tiny_bart, tmp_path):
    model = with_generation(tiny_bart, tmp_path / "sampler", do_sample=True, temperature=0.7, top_p=0.9)
    network = task_of(model, documents(4), tmp_path).load_model()
    assert network.generation_config.do_sample is False
    network.save_pretrained(tmp_path / "saved")


def test_a_model_that_must_write_more_than_it_may_is_refused(tiny_bart, tmp_path):
    model = with_generation(tiny_bart, tmp_path / "cnn", min_length=56)
    with pytest.raises(ValueError, match=r"asks for at least 56 tokens, and target_length is 10: raise it"):
        task_of(model, documents(4), tmp_path)


# What goes wrong


def rows_with(place: int, **changes) -> list[dict]:
    rows = documents(4)
    rows[place] |= changes
    return rows


@pytest.mark.parametrize(
    ("rows", "source", "told"),
    [
        (documents(4), {"text": "story"}, r"train has no column 'story': it has document, summary; .*\(--text\)"),
        (documents(4), {"label": "gist"}, r"train has no column 'gist': .*\(--label\)"),
        (rows_with(1, document=None), {}, "row 1 of train has no text in 'document'"),
        (rows_with(2, summary=None), {}, "row 2 of train has no text in 'summary'"),
        (rows_with(2, summary=" \n"), {}, "row 2 of train has an empty summary in 'summary': drop the row"),
        (documents(4), {"beams": 0}, "beams=0: it must be at least 1"),
        (documents(4), {"target_length": 65}, "target_length=65: .* at most the 64 positions of the model's decoder"),
        (documents(4), {"target_length": 0}, "target_length=0: it must be at least 1"),
        (documents(4), {"max_length": 65}, "max_length=65 is more than the 64 tokens"),
    ],
)
def test_rows_and_settings_that_do_not_fit_are_refused_by_name(rows, source, told, tiny_bart, tmp_path):
    with pytest.raises(ValueError, match=told):
        task_of(tiny_bart, rows, tmp_path, **source)


def test_a_model_without_a_decoder_is_refused_for_training_and_for_scoring(tiny_bert, tiny_documents):
    source = Source(data=str(tiny_documents))
    for build in (
        lambda: training_task("xsum", str(tiny_bert), source, seed=0),
        lambda: evaluation_task("xsum", str(tiny_bert), source),
    ):
        with pytest.raises(ValueError, match="is a bert, which has no decoder beside an encoder: summaries need both"):
            build()


def test_a_decoder_that_does_not_know_how_to_begin_is_refused(tmp_path):
    model = save_tiny_bart(tmp_path / "bart")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "decoder_start_token_id": None}))
    with pytest.raises(ValueError, match="has no decoder_start_token_id"):
        task_of(model, documents(4), tmp_path)
