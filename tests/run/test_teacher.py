"""A run with a teacher: recorded, resumed to the same bits, and refused before training where it does not fit."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, TrainerCallback

pytest.importorskip("datasets")

import mgpp
from mgpp.run import RunConfig, RunInterrupted, run
from tests.run.test_resume import Killed, outcome, stop_with
from tests.tiny import PRUNABLE, At, reviews, save_tiny_bert, write_csv


@pytest.fixture(scope="module")
def teacher(tiny_bert: Path, tiny_reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("teacher") / "dense"
    config = RunConfig(model=str(tiny_bert), data=str(tiny_reviews), output=str(output), max_steps=4, device="cpu")
    run(config)
    return output


@pytest.fixture
def taught(config: RunConfig, teacher: Path) -> RunConfig:
    return replace(config, teacher=str(teacher))


def test_the_result_and_the_card_name_the_teacher(taught):
    told: list[str] = []
    result = run(replace(taught, distil_temperature=4.0, distil_weight=0.9, distil_hidden=0.1), tell=told.append)
    assert result["teacher"] == {"model": taught.teacher, "temperature": 4.0, "weight": 0.9, "hidden_weight": 0.1}
    assert result["zeros"] == int(0.75 * PRUNABLE)
    card = (Path(taught.output) / "README.md").read_text()
    assert f"| teacher's model | {taught.teacher} |" in card
    assert "| teacher's weight | 0.9 |" in card
    assert any(line.startswith(f"taught by {taught.teacher}") for line in told)


def test_without_a_teacher_none_is_named(config):
    assert run(config)["teacher"] is None
    assert "teacher" not in (Path(config.output) / "README.md").read_text()


@pytest.mark.parametrize("more", [{"distil_weight": 1.0}, {"distil_hidden": 1.0}, {"group_by_length": True}])
def test_the_teacher_changes_what_is_learned(config, taught, more, tmp_path):
    plain = replace(config, output=str(tmp_path / "plain"), group_by_length=more.get("group_by_length", False))
    run(plain)
    run(replace(taught, **more))
    assert outcome(taught)[0] != outcome(plain)[0]


def test_weight_zero_learns_nothing_from_it(config, taught, tmp_path):
    plain = replace(config, output=str(tmp_path / "plain"))
    run(plain)
    run(replace(taught, distil_weight=0.0))
    assert outcome(taught)[:2] == outcome(plain)[:2]


@pytest.mark.parametrize(
    ("error", "more"), [(KeyboardInterrupt, {}), (Killed, {"accumulate": 2, "distil_hidden": 0.5, "precision": "bf16"})]
)
def test_a_taught_run_resumes_to_the_same_bits(error, more, taught, tmp_path):
    taught = replace(taught, **more)
    whole = replace(taught, output=str(tmp_path / "whole"))
    run(whole)
    with pytest.raises((RunInterrupted, Killed)):
        run(taught, callbacks=[At(7, stop_with(error))])
    with pytest.raises(ValueError, match=r"distil_temperature: was 2.0, now 3.0"):
        run(replace(taught, distil_temperature=3.0), resume=True)
    run(taught, resume=True)
    assert outcome(taught) == outcome(whole)


class GradientNorms(TrainerCallback):
    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        grads = [param.grad for param in kwargs["model"].parameters() if param.grad is not None]
        self.seen.append(float(torch.nn.utils.get_total_norm(grads)))


@pytest.mark.parametrize("with_teacher", [False, True])
def test_accumulated_batches_make_the_gradient_of_one_batch(with_teacher, config, taught, tmp_path):
    """Without dropout they are the same rows, cut into pieces; the Trainer itself would add the pieces up."""
    calm = Path(shutil.copytree(config.model, tmp_path / "calm"))
    settings = json.loads((calm / "config.json").read_text())
    settings |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (calm / "config.json").write_text(json.dumps(settings))
    base = replace(taught if with_teacher else config, model=str(calm), max_steps=1, method=None, max_grad_norm=0.0)
    norms = []
    for batch_size, accumulate in ((8, 1), (4, 2), (2, 4)):
        seen = GradientNorms()
        output = str(tmp_path / f"by-{accumulate}")
        run(replace(base, output=output, batch_size=batch_size, accumulate=accumulate), callbacks=[seen])
        norms += seen.seen
    assert norms == pytest.approx([norms[0]] * 3, rel=1e-4)


def renamed(teacher: Path, folder: Path, **settings) -> Path:
    """A copy of the teacher whose config says something else."""
    copy = Path(shutil.copytree(teacher, folder / "other"))
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, **settings}))
    return copy


def other_labels(teacher: Path, folder: Path) -> Path:
    config = AutoConfig.from_pretrained(teacher, num_labels=3)
    copy = Path(shutil.copytree(teacher, folder / "three"))
    AutoModelForSequenceClassification.from_config(config).save_pretrained(copy)
    return copy


def other_words(teacher: Path, folder: Path) -> Path:
    copy = Path(shutil.copytree(teacher, folder / "words"))
    text = (copy / "tokenizer.json").read_text()
    (copy / "tokenizer.json").write_text(text.replace('"film": 6', '"movie": 6'))
    return copy


def more_words(teacher: Path, folder: Path) -> Path:
    copy = Path(shutil.copytree(teacher, folder / "words"))
    text = (copy / "tokenizer.json").read_text()
    (copy / "tokenizer.json").write_text(text.replace('"film": 6', '"film": 6, "movie": 25'))
    return copy


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda teacher, folder: folder / "nowhere", "nowhere is no model folder"),
        (lambda teacher, folder: save_tiny_bert(folder / "bare"), "has no classification head: fine-tune it first"),
        (other_labels, "answers with 3 classes.* and the model with 2 classes"),
        (other_words, r"has another vocabulary \('film' is token None, to the model it is 6\)"),
        (more_words, r"has another vocabulary \(26 tokens, the model has 25\)"),
        (lambda teacher, folder: renamed(teacher, folder, max_position_embeddings=64), "teacher: max_length=128"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused_before_anything_is_written(make, told, config, teacher, tmp_path):
    with pytest.raises((ValueError, OSError), match=told):
        run(replace(config, teacher=str(make(teacher, tmp_path))))
    assert not Path(config.output).exists()


def test_a_teacher_with_its_classes_in_another_order_is_refused(config, teacher, tmp_path):
    rows = [{**row, "label": ("bad", "good")[row["label"]]} for row in reviews(40)]
    named = replace(config, data=str(write_csv(tmp_path / "rows.csv", rows)))
    swapped = renamed(teacher, tmp_path, id2label={"0": "good", "1": "bad"}, label2id={"good": 0, "bad": 1})
    with pytest.raises(ValueError, match=r"has its classes in another order: good, bad; the model has bad, good"):
        run(replace(named, teacher=str(swapped)))
    run(replace(named, teacher=str(teacher)))  # LABEL_0 says nothing about the order


def test_a_teacher_of_another_width_teaches_logits_only(config, teacher, tmp_path):
    config_of = AutoConfig.from_pretrained(teacher, hidden_size=8, num_hidden_layers=3)
    wide = Path(shutil.copytree(teacher, tmp_path / "narrow"))
    AutoModelForSequenceClassification.from_config(config_of).save_pretrained(wide)
    taught = replace(config, teacher=str(wide))
    with pytest.raises(ValueError, match=r"hidden states are 16 wide and its teacher's 8"):
        run(replace(taught, distil_hidden=1.0))
    assert not Path(config.output).exists()
    assert run(taught)["zeros"] == int(0.75 * PRUNABLE)


def test_regression_is_taught_by_a_teacher_of_numbers_and_by_no_other(config, teacher, tmp_path):
    rows = [{"text": row["text"], "label": float(row["label"])} for row in reviews(40)]
    numbers = replace(config, data=str(write_csv(tmp_path / "rows.csv", rows)))
    run(replace(numbers, method=None, output=str(tmp_path / "dense")))
    assert run(replace(numbers, teacher=str(tmp_path / "dense")))["metric"] == "pearson"
    with pytest.raises(ValueError, match="answers with 2 classes and the model with one number"):
        run(replace(numbers, teacher=str(teacher), output=str(tmp_path / "refused")))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"distil_temperature": 0.0}, "distil_temperature=0.0: it must be a number greater than 0"),
        ({"distil_temperature": float("nan")}, "distil_temperature=nan"),
        ({"distil_weight": 1.5}, r"distil_weight=1.5: it must be the teacher's share of the loss, in \[0, 1\]"),
        ({"distil_weight": -0.1}, r"distil_weight=-0.1"),
        ({"distil_hidden": -1.0}, "distil_hidden=-1.0"),
        ({"teacher": None, "distil_weight": 0.7}, r"distil_weight=0.7 and no teacher: give one \(--teacher\)"),
        ({"teacher": None, "unlabelled": "more.csv"}, r"unlabelled=more.csv and no teacher to answer them: give one"),
        ({"distil_weight": 0.0, "unlabelled": "more.csv"}, r"more.csv and distil_weight=0: nobody learns from them"),
    ],
)
def test_distillation_that_cannot_be_done_cannot_be_configured(change, told, taught):
    with pytest.raises(ValueError, match=told):
        replace(taught, **change)


@pytest.fixture
def unlabelled(taught, tmp_path) -> RunConfig:
    """With 24 texts more, beside which other columns may stand."""
    rows = [{"text": row["text"], "stars": 3} for row in reviews(24, seed=5)]
    return replace(taught, unlabelled=str(write_csv(tmp_path / "more.csv", rows)))


def test_rows_without_labels_are_trained_on_and_not_scored_on(taught, unlabelled, tmp_path):
    plain = run(replace(taught, output=str(tmp_path / "plain")))
    result = run(unlabelled)
    assert result["train_rows"] == plain["train_rows"] + 24
    assert result["eval_rows"] == plain["eval_rows"]
    told = f"24 more rows without labels from {unlabelled.unlabelled}, which the teacher alone answers"
    assert result["notes"] == [
        *plain["notes"][:-1],
        told,
        plain["notes"][-1],
    ]  # the card says the last of what is scored
    assert f"| unlabelled | {unlabelled.unlabelled} |" in (Path(unlabelled.output) / "README.md").read_text()
    assert result["config"]["unlabelled"] == unlabelled.unlabelled
    assert outcome(unlabelled)[0] != outcome(replace(taught, output=str(tmp_path / "plain")))[0]


def test_a_run_with_rows_without_labels_resumes_to_the_same_bits(unlabelled, tmp_path):
    whole = replace(unlabelled, output=str(tmp_path / "whole"))
    run(whole)
    with pytest.raises(Killed):
        run(unlabelled, callbacks=[At(7, stop_with(Killed))])
    with pytest.raises(ValueError, match=r"unlabelled: was .*more.csv, now None"):
        run(replace(unlabelled, unlabelled=None), resume=True)
    run(unlabelled, resume=True)
    assert outcome(unlabelled) == outcome(whole)


def test_numbers_are_learnt_from_rows_without_labels_too(config, unlabelled, tmp_path):
    rows = [{"text": row["text"], "label": float(row["label"])} for row in reviews(40)]
    numbers = replace(config, data=str(write_csv(tmp_path / "rows.csv", rows)))
    run(replace(numbers, method=None, output=str(tmp_path / "dense")))
    result = run(replace(numbers, teacher=str(tmp_path / "dense"), unlabelled=unlabelled.unlabelled))
    assert (result["metric"], result["train_rows"]) == ("pearson", 36 + 24)
    assert all(value == value for value in result["after"].values())


@pytest.mark.parametrize(
    ("rows", "change", "told"),
    [
        ([{"words": "a film"}], {}, r"more.csv has no column 'text': it has words"),
        ([{"text": "a film"}, {"text": ""}], {}, r"row 1 of .*more.csv has no text in 'text'"),
        (
            [{"text": "a film"}],
            {"method": mgpp.OBERT(sparsity=0.5)},
            "samples rows with their labels, and some of .*more",
        ),
        ([{"text": "a film"}], {"task": "mlm"}, "task=mlm takes no rows without labels: leave --unlabelled out; text,"),
    ],
)
def test_rows_that_no_teacher_can_answer_are_refused_before_anything_is_written(rows, change, told, taught, tmp_path):
    with pytest.raises(ValueError, match=told):
        run(replace(taught, unlabelled=str(write_csv(tmp_path / "more.csv", rows)), **change))
    assert not Path(taught.output).exists()


def test_a_config_is_read_back_as_it_was_written(taught):
    again = replace(taught, include=("*.query.weight",), method=mgpp.OBERT(sparsity=0.5, prior=mgpp.Prior()))
    for config in (taught, again, replace(taught, method=None)):
        assert RunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
