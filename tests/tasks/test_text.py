"""Text rows become features, labels and a head that fit each other, or a line that says what does not."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from transformers import EvalPrediction

datasets = pytest.importorskip("datasets")

from mgpp.tasks import Source, evaluation_task, training_task  # noqa: E402
from tests.tiny import reviews, write_csv, write_jsonl  # noqa: E402


def task_of(model: Path, rows: list[dict], folder: Path, *, new_head: bool = False, **source):
    data = write_jsonl(folder / "rows.jsonl", rows)
    return training_task("text", str(model), Source(data=str(data), **source), seed=0, new_head=new_head)


def labelled(*labels) -> list[dict]:
    return [{"text": f"the film {number}", "label": label} for number, label in enumerate(labels)]


def test_int_labels_stay_and_the_head_fits_them(tiny_bert, tiny_reviews):
    task = training_task("text", str(tiny_bert), Source(data=str(tiny_reviews)), seed=0)
    rows = datasets.load_dataset("json", data_files=str(tiny_reviews / "train.jsonl"), split="train")
    assert task.train["labels"][:] == rows["label"][:]
    assert task.train[0]["input_ids"] == task.tokenizer(rows[0]["text"])["input_ids"]
    assert task.load_model().config.num_labels == 2
    assert task.metric == "accuracy"


def test_string_labels_are_sorted_and_kept_in_the_models_config(tiny_bert, tmp_path):
    task = task_of(tiny_bert, labelled("pos", "neg", "mid", "pos") * 4, tmp_path)
    config = task.load_model().config
    assert config.id2label == {0: "mid", 1: "neg", 2: "pos"}
    assert config.label2id == {"mid": 0, "neg": 1, "pos": 2}
    assert sorted(set(task.train["labels"])) == [0, 1, 2]


def test_float_labels_mean_regression(tiny_bert, tmp_path):
    task = task_of(tiny_bert, labelled(0.5, 1.0, 4.25, 3.0), tmp_path)
    config = task.load_model().config
    assert (config.num_labels, config.problem_type, task.metric) == (1, "regression", "pearson")


def test_named_classes_keep_their_names(tiny_bert, tmp_path):
    rows = datasets.Dataset.from_list(reviews(8)).cast_column("label", datasets.ClassLabel(names=["bad", "good"]))
    rows.to_parquet(tmp_path / "rows.parquet")
    task = training_task("text", str(tiny_bert), Source(data=str(tmp_path / "rows.parquet")), seed=0)
    assert task.load_model().config.id2label == {0: "bad", 1: "good"}


def test_a_pair_is_found_by_its_usual_names_and_joined(tiny_bert, tmp_path):
    rows = [{"premise": "the film", "hypothesis": "was dull", "label": number % 2} for number in range(4)]
    task = task_of(tiny_bert, rows, tmp_path)
    assert task.train[0]["input_ids"] == task.tokenizer("the film", "was dull")["input_ids"]
    assert "premise + hypothesis" in task.notes[0]


@pytest.mark.parametrize("labels", [(0, 1) * 4, ("bad", "good") * 4, (0.5, 1.0) * 4], ids=["ints", "strings", "floats"])
def test_rows_without_labels_come_last_and_have_none(labels, tiny_bert, tmp_path):
    more = write_csv(tmp_path / "more.csv", [{"text": "good film"}, {"text": "bad film"}])
    plain = task_of(tiny_bert, labelled(*labels), tmp_path)
    task = task_of(tiny_bert, labelled(*labels), tmp_path, unlabelled=str(more))
    assert task.train[: len(plain.train)] == plain.train[:]
    assert task.train["input_ids"][-2:] == [task.tokenizer(text)["input_ids"] for text in ("good film", "bad film")]
    assert len(task.train) == len(plain.train) + 2
    missing = np.array(task.train["labels"][-2:])
    assert np.isnan(missing).all() if isinstance(labels[0], float) else (missing == -1).all()
    assert task.evaluation[:] == plain.evaluation[:]


@pytest.mark.parametrize("kind", ["int8", "int64", "bool"])
def test_a_column_may_be_called_as_a_feature_is(kind, tiny_bert, tmp_path):
    labels = [bool(number % 2) if kind == "bool" else number % 2 for number in range(8)]
    types = datasets.Features({"text": datasets.Value("string"), "labels": datasets.Value(kind)})
    rows = datasets.Dataset.from_dict({"text": ["good film"] * 8, "labels": labels}, features=types)
    more = datasets.Dataset.from_dict({"text": ["bad film"], "labels": ["unknown"], "input_ids": ["none"]})
    source = Source(data=rows, label="labels", unlabelled=more)
    task = training_task("text", str(tiny_bert), source, seed=0)
    assert task.train["labels"][-1] == -1
    assert set(task.train["labels"][:-1]) == {0, 1}
    assert task.unlabelled == 1 / len(task.train)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda rows: datasets.DatasetDict(test=rows, other=rows), "has test, other, and no train: give one of these"),
        (lambda rows: rows.to_iterable_dataset(), "is a stream: give rows without labels that have a number"),
    ],
)
def test_rows_without_labels_that_cannot_be_told_or_counted_are_refused(make, told, tiny_bert, tmp_path):
    more = make(datasets.Dataset.from_dict({"text": ["bad film"]}))
    with pytest.raises(ValueError, match=told):
        task_of(tiny_bert, labelled(*(0, 1) * 4), tmp_path, unlabelled=more)


def test_texts_are_cut_to_the_length_asked_for(tiny_bert, tiny_reviews):
    task = training_task("text", str(tiny_bert), Source(data=str(tiny_reviews), max_length=5), seed=0)
    assert max(len(ids) for ids in task.train["input_ids"]) == 5


def test_held_out_rows_are_told(tiny_bert, tmp_path):
    task = task_of(tiny_bert, reviews(40), tmp_path, holdout=0.25)
    assert (len(task.train), len(task.evaluation)) == (30, 10)
    assert "10 of 40 training rows are held out (25%, seed 0)" in task.notes[-1]


def test_evaluation_rows_may_come_from_elsewhere_or_from_a_named_split(tiny_bert, tmp_path):
    write_jsonl(tmp_path / "data" / "train.jsonl", reviews(8))
    write_jsonl(tmp_path / "data" / "test.jsonl", reviews(5, seed=1))
    other = write_csv(tmp_path / "other.csv", reviews(3, seed=2))
    source = {"data": str(tmp_path / "data")}
    assert len(training_task("text", str(tiny_bert), Source(**source, eval_split="test"), seed=0).evaluation) == 5
    assert len(training_task("text", str(tiny_bert), Source(**source, eval_data=str(other)), seed=0).evaluation) == 3
    with pytest.raises(ValueError, match="no split 'dev': it has test, train"):
        training_task("text", str(tiny_bert), Source(**source, eval_split="dev"), seed=0)


@pytest.mark.parametrize(
    ("rows", "source", "told"),
    [
        ([{"a": "x", "label": 0}], {}, r"which column holds the text\? .* has a, label: name it"),
        (reviews(4), {"text": "review"}, r"train has no column 'review': it has text, label"),
        (
            [{"text": "x", "stars": 1}],
            {},
            r"train has no column 'label': it has text, stars; name one .*--label.*--task clm",
        ),
        ([{"text": "x"}] * 4, {"label": "text"}, r"'text' cannot be text and label at once: .*--text, --label"),
        ([{"text": "x", "label": 0}, {"text": None, "label": 1}], {}, "row 1 of train has no text in 'text'"),
        ([{"text": 3, "label": 0}, {"text": 4, "label": 1}], {}, "row 0 of train: text=3 is int, not text"),
        (labelled(0, 1, None), {}, "row 2 of train: label=None: the label is missing"),
        (labelled(0.5, float("nan"), 1.5), {}, "row 1 of train: label=nan: the label is not a finite|cannot be read"),
        (labelled(0, 1, -1), {}, "row 2 of train: label=-1: classes are numbered from 0"),
        (labelled(0, 2, 3), {}, "the labels 0, 2, 3 are not 0 to 2"),
        (labelled(1, 1, 1), {}, "every training label is 1: there is nothing to learn"),
        (labelled([0], [1]), {}, "labels are ints from 0, strings, or floats"),
        (labelled(0, "one", 2.5), {}, "labels are ints from 0, strings, or floats|cannot be read"),
        (reviews(4), {"max_length": 1000}, "max_length=1000 is more than the 128 tokens"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(rows, source, told, tiny_bert, tmp_path):
    with pytest.raises(ValueError, match=told) as caught:
        task_of(tiny_bert, rows, tmp_path, **source)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("train", "validation", "told"),
    [
        ((0, 1, 0), (0, 2), "validation has labels 2 that train does not"),
        (("a", "b"), ("a", "c"), "validation has labels 'c' that train does not"),
        ((0, 1), (0.5, 1.0), "the labels of validation are floats and train has classes"),
        ((0.5, 1.0), ("a", "b"), "the labels of validation are strings and train is for numbers"),
    ],
)
def test_evaluation_labels_that_training_cannot_teach_are_refused(train, validation, told, tiny_bert, tmp_path):
    write_jsonl(tmp_path / "train.jsonl", labelled(*train))
    write_jsonl(tmp_path / "validation.jsonl", labelled(*validation))
    with pytest.raises(ValueError, match=told):
        training_task("text", str(tiny_bert), Source(data=str(tmp_path)), seed=0)


def test_a_named_class_that_only_the_evaluation_rows_have_is_refused(tiny_bert, tmp_path):
    names = datasets.ClassLabel(names=["a", "b", "c"])
    for split, labels in (("train", (0, 1)), ("validation", (0, 2))):
        rows = datasets.Dataset.from_list(labelled(*labels)).cast_column("label", names)
        rows.to_parquet(tmp_path / f"{split}.parquet")
    with pytest.raises(ValueError, match="validation has labels that train never shows: 2"):
        training_task("text", str(tiny_bert), Source(data=str(tmp_path)), seed=0)


@pytest.fixture
def three_classes(tiny_bert, tmp_path) -> Path:
    """A model that brings a head for three named classes."""
    task = task_of(tiny_bert, labelled("mid", "neg", "pos") * 2, tmp_path / "three")
    folder = tmp_path / "model"
    task.load_model().save_pretrained(folder)
    task.tokenizer.save_pretrained(folder)
    return folder


def test_a_head_that_fits_by_name_is_kept_in_its_own_order(three_classes, tmp_path):
    task = task_of(three_classes, labelled("pos", "mid", "neg"), tmp_path, eval_data=None)
    assert task.load_model().config.id2label == {0: "mid", 1: "neg", 2: "pos"}


def test_a_head_that_does_not_fit_is_refused_or_replaced(three_classes, tmp_path):
    with pytest.raises(ValueError, match=r"has a head for 3 classes.* and the data has 2 classes.*--new-head"):
        task_of(three_classes, reviews(8), tmp_path)
    task = task_of(three_classes, reviews(8), tmp_path, new_head=True)
    assert task.load_model().classifier.out_features == 2
    with pytest.raises(ValueError, match="train has labels 'x', 'y', 'z' that the head of"):
        task_of(three_classes, labelled("x", "y", "z"), tmp_path)


def test_a_model_without_a_head_cannot_be_scored(tiny_bert, tiny_reviews):
    with pytest.raises(ValueError, match="has no classification head"):
        evaluation_task("text", str(tiny_bert), Source(data=str(tiny_reviews)))


def without_weights(model: Path) -> None:
    (model / "model.safetensors").unlink()


def without_config(model: Path) -> None:
    (model / "config.json").unlink()


def without_tokenizer(model: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (model / name).unlink(missing_ok=True)


def with_truncated_weights(model: Path) -> None:
    content = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(content[: len(content) // 2])


def with_more_words(model: Path) -> None:
    text = (model / "tokenizer.json").read_text()
    (model / "tokenizer.json").write_text(text.replace('"film": 6', '"film": 6, "movie": 25'))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (with_more_words, "the tokenizer of .* knows 26 tokens and the model 25: put the model's own beside it"),
        (without_weights, r"holds no weights \(model.safetensors\)"),
        (without_config, "holds no config.json"),
        (without_tokenizer, "holds no tokenizer"),
        (with_truncated_weights, "the weights in .* cannot be loaded"),
    ],
)
def test_a_damaged_model_folder_is_named(damage, told, tiny_bert, tiny_reviews, tmp_path):
    model = Path(shutil.copytree(tiny_bert, tmp_path / "model"))
    damage(model)
    with pytest.raises((ValueError, OSError), match=told) as caught:
        training_task("text", str(model), Source(data=str(tiny_reviews)), seed=0).load_model()
    assert "\n" not in str(caught.value)


def test_a_model_that_cannot_be_fetched_is_one_line(tiny_reviews):
    with pytest.raises(OSError, match="'nobody/no-model' is no local folder, and fetching its config") as caught:
        training_task("text", "nobody/no-model", Source(data=str(tiny_reviews)), seed=0)
    assert "\n" not in str(caught.value)


def test_classification_is_scored_as_scikit_learn_does(tiny_bert, tiny_reviews):
    score = training_task("text", str(tiny_bert), Source(data=str(tiny_reviews)), seed=0).compute_metrics
    logits = np.array([[2.0, 1.0], [0.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
    got = score(EvalPrediction(predictions=logits, label_ids=np.array([0, 1, 0, 0])))
    assert got == {"accuracy": 0.75, "f1": pytest.approx(2 / 3), "matthews": pytest.approx(0.5773503)}


def test_regression_is_scored_by_correlation_and_a_constant_scores_zero(tiny_bert, tmp_path):
    score = task_of(tiny_bert, labelled(0.0, 1.0, 2.0), tmp_path).compute_metrics
    labels = np.array([1.0, 2.0, 3.0])
    rising = score(EvalPrediction(predictions=np.array([[1.0], [2.0], [3.5]]), label_ids=labels))
    assert rising == {"pearson": pytest.approx(0.9933993), "spearman": pytest.approx(1.0)}
    constant = score(EvalPrediction(predictions=np.ones((3, 1)), label_ids=labels))
    assert constant == {"pearson": 0.0, "spearman": 0.0}
