"""The GLUE tasks read rows as the hub has them, are scored by the official metrics, and learn while they are pruned."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import EvalPrediction

datasets = pytest.importorskip("datasets")

from scipy import stats  # noqa: E402
from sklearn import metrics as sklearn  # noqa: E402

import mgpp  # noqa: E402
from mgpp.run import RunConfig, evaluate, run  # noqa: E402
from mgpp.tasks import Source, evaluation_task, training_task  # noqa: E402
from tests.tiny import BAD, FILLER, GOOD, PRUNABLE  # noqa: E402

COLUMNS = {
    "cola": ("sentence",),
    "sst2": ("sentence",),
    "mrpc": ("sentence1", "sentence2"),
    "stsb": ("sentence1", "sentence2"),
    "qqp": ("question1", "question2"),
    "mnli": ("premise", "hypothesis"),
    "qnli": ("question", "sentence"),
    "rte": ("sentence1", "sentence2"),
}
CLASSES = {"mnli": ["entailment", "neutral", "contradiction"], "stsb": []}
METRICS = {
    "cola": {"matthews"},
    "sst2": {"accuracy"},
    "mrpc": {"accuracy", "f1"},
    "stsb": {"pearson", "spearman"},
    "qqp": {"accuracy", "f1"},
    "mnli": {"matched_accuracy", "mismatched_accuracy"},
    "qnli": {"accuracy"},
    "rte": {"accuracy"},
}
LOSSES = {"mnli": {"matched_loss", "mismatched_loss"}}


def rows_of(task: str, count: int, *, seed: int, labelled: bool = True) -> "datasets.Dataset":
    """Words that tell the label stand in the last text; -1 and 0.0 are what the hub's test rows carry."""
    draw = random.Random(seed)
    classes = CLASSES.get(task, ["no", "yes"])
    words = [BAD, GOOD, FILLER]
    rows: list[dict[str, Any]] = []
    for number in range(count):
        label = draw.randrange(len(classes) or 2)
        texts = [" ".join(draw.choices(FILLER, k=4)) for _ in COLUMNS[task]]
        texts[-1] += f" {draw.choice(words[label])}"
        value: float = label if classes else 5.0 * label - 0.25 * draw.randrange(3) * (2 * label - 1)
        value = value if labelled else (-1 if classes else 0.0)
        rows.append({**dict(zip(COLUMNS[task], texts, strict=True)), "label": value, "idx": number})
    label_type = datasets.ClassLabel(names=classes) if classes else datasets.Value("float32")
    made = datasets.Dataset.from_list(rows)
    return made.cast_column("label", label_type) if labelled or not classes else made


def write_glue(task: str, folder: Path, *, partial: bool = False) -> Path:
    """The splits of the hub, test rows without labels among them; or only a part of them, under the names of parts."""
    suffixes = ("_matched", "_mismatched") if task == "mnli" else ("",)
    folder.mkdir(parents=True)
    rows_of(task, 160, seed=1).to_parquet(folder / ("train_partial.parquet" if partial else "train.parquet"))
    if partial:
        rows_of(task, 40, seed=2).to_parquet(folder / f"validation{suffixes[0] or '_partial'}.parquet")
        return folder
    for number, suffix in enumerate(suffixes):
        rows_of(task, 40, seed=2 + number).to_parquet(folder / f"validation{suffix}.parquet")
        rows_of(task, 10, seed=9, labelled=False).to_parquet(folder / f"test{suffix}.parquet")
    return folder


@pytest.mark.parametrize("task", COLUMNS)
def test_a_glue_task_learns_while_it_is_pruned_to_the_count_asked(task, tiny_bert, tmp_path):
    config = RunConfig(
        model=str(tiny_bert),
        data=str(write_glue(task, tmp_path / "data")),
        output=str(tmp_path / "out"),
        task=task,
        method=mgpp.GMP(sparsity=0.5, start=5, end=30, every=5),
        max_steps=60,
        batch_size=16,
        learning_rate=1e-2,
        max_length=32,
        device="cpu",
    )
    result = run(config)
    assert result["zeros"] == int(0.5 * PRUNABLE)
    assert set(result["after"]) == METRICS[task] | LOSSES.get(task, {"loss"})
    assert result["metric"] in METRICS[task]
    assert all(result["after"][name] > result["before"][name] for name in METRICS[task])
    assert result["eval_rows"] == (80 if task == "mnli" else 40)
    scored = evaluate(config.output, Source(data=config.data, max_length=32), task=task, device="cpu")
    assert scored["metrics"] == result["after"]


@pytest.mark.parametrize("task", ["mnli", "qqp"])
def test_splits_that_are_only_a_part_are_taken_by_their_names(task, tiny_bert, tmp_path):
    source = Source(data=str(write_glue(task, tmp_path / "data", partial=True)))
    made = training_task(task, str(tiny_bert), source, seed=0)
    assert (len(made.train), made.eval_rows) == (160, 40)
    assert made.metric == ("matched_accuracy" if task == "mnli" else "accuracy")


def test_of_several_parts_one_must_be_named(tiny_bert, tmp_path):
    data = write_glue("qnli", tmp_path / "data", partial=True)
    rows_of("qnli", 20, seed=5).to_parquet(data / "train_derived.parquet")
    with pytest.raises(ValueError, match=r"has train_derived, train_partial and no train: say which \(--train-split\)"):
        training_task("qnli", str(tiny_bert), Source(data=str(data)), seed=0)
    chosen = training_task("qnli", str(tiny_bert), Source(data=str(data), train_split="train_derived"), seed=0)
    assert len(chosen.train) == 20


def test_mnli_as_any_text_asks_which_validation_is_meant(tiny_bert, tmp_path):
    data = str(write_glue("mnli", tmp_path / "data"))
    with pytest.raises(ValueError, match=r"validation_matched, validation_mismatched are there and no validation"):
        training_task("text", str(tiny_bert), Source(data=data), seed=0)
    one = training_task("text", str(tiny_bert), Source(data=data, eval_split="validation_matched"), seed=0)
    assert (one.eval_rows, one.metric) == (40, "accuracy")


def test_rows_without_labels_cannot_be_scored_on(tiny_bert, tmp_path):
    data = str(write_glue("rte", tmp_path / "data"))
    with pytest.raises(ValueError, match="row 0 of test: label=-1: classes are numbered from 0"):
        training_task("rte", str(tiny_bert), Source(data=data, eval_split="test"), seed=0)


@pytest.mark.parametrize(
    ("task", "data", "told"),
    [
        ("sst2", "rte", "this task reads sentence, and .* has sentence1, sentence2, label, idx: name what"),
        ("mrpc", "stsb", "this task is about 2 classes and the data about one number"),
        ("stsb", "mrpc", "this task is about one number and the data about 2 classes: 'no', 'yes'"),
        ("mnli", "sst2", r"this task reads premise and hypothesis, and .* has sentence, label, idx: name what"),
    ],
)
def test_data_of_another_task_is_refused(task, data, told, tiny_bert, tmp_path):
    with pytest.raises(ValueError, match=told):
        training_task(task, str(tiny_bert), Source(data=str(write_glue(data, tmp_path / "data"))), seed=0)


def test_a_model_fine_tuned_on_another_task_cannot_be_scored_on_this_one(tiny_bert, tmp_path):
    config = RunConfig(
        model=str(tiny_bert),
        data=str(write_glue("stsb", tmp_path / "stsb")),
        output=str(tmp_path / "out"),
        task="stsb",
        max_steps=1,
        device="cpu",
    )
    run(config)
    with pytest.raises(ValueError, match=r"this task is about 2 classes and the head of .* about one number"):
        evaluation_task("mrpc", config.output, Source(data=str(write_glue("mrpc", tmp_path / "mrpc"))))


@pytest.mark.parametrize("task", COLUMNS)
def test_the_official_metrics_are_those_of_scikit_learn_and_scipy(task, tiny_bert, tmp_path):
    score = training_task(task, str(tiny_bert), Source(data=str(write_glue(task, tmp_path / "data"))), seed=0)
    draw = np.random.default_rng(3)
    classes = len(CLASSES.get(task, "12"))
    logits = draw.normal(size=(200, max(1, classes))).astype(np.float32)
    labels = draw.integers(0, classes, size=200) if classes else draw.uniform(0, 5, size=200)
    got = score.compute_metrics(EvalPrediction(predictions=logits, label_ids=labels))
    chosen = logits.argmax(-1)
    expected = {
        "accuracy": lambda: sklearn.accuracy_score(labels, chosen),
        "f1": lambda: sklearn.f1_score(labels, chosen),
        "matthews": lambda: sklearn.matthews_corrcoef(labels, chosen),
        "pearson": lambda: stats.pearsonr(logits[:, 0], labels)[0],
        "spearman": lambda: stats.spearmanr(logits[:, 0], labels)[0],
    }
    names = {name.removeprefix("matched_") for name in METRICS[task] if not name.startswith("mis")}
    assert got == {name: pytest.approx(expected[name](), abs=1e-6) for name in names}
