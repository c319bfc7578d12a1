"""Every task is an entry of one table; a run names it and knows nothing else of it."""

import json
from dataclasses import replace

import pytest

datasets = pytest.importorskip("datasets")

from mgpp.run import RunConfig, RunInterrupted, run  # noqa: E402
from mgpp.tasks import TASKS, Source, training_task  # noqa: E402
from tests.run.test_resume import stop_with  # noqa: E402
from tests.tiny import At, reviews  # noqa: E402


def test_a_task_that_is_not_in_the_table_is_refused_with_those_that_are(tiny_bert, tiny_reviews):
    with pytest.raises(ValueError, match=f"task='poetry' is not one of {', '.join(TASKS)}"):
        RunConfig(model=str(tiny_bert), data=str(tiny_reviews), output="out", task="poetry")


def test_a_config_tells_the_length_that_its_task_takes(tiny_bert, tiny_reviews):
    config = RunConfig(model=str(tiny_bert), data=str(tiny_reviews), output="out")
    assert config.to_dict()["max_length"] == config.max_length == TASKS["text"].max_length


def as_objects() -> "datasets.DatasetDict":
    parts = {"train": reviews(24, seed=1), "validation": reviews(8, seed=2)}
    return datasets.DatasetDict({name: datasets.Dataset.from_list(rows) for name, rows in parts.items()})


def test_rows_may_come_as_objects_of_datasets(tiny_bert):
    rows = as_objects()
    task = training_task("text", str(tiny_bert), Source(data=rows), seed=0)
    assert (len(task.train), task.eval_rows) == (24, 8)
    alone = training_task("text", str(tiny_bert), Source(data=rows["train"], eval_data=rows["validation"]), seed=0)
    assert alone.evaluation["input_ids"][:] == task.evaluation["input_ids"][:]


def test_a_run_of_objects_is_described_and_resumed_only_with_the_same_rows(tiny_bert, tmp_path):
    config = RunConfig(
        model=str(tiny_bert),
        data=as_objects(),
        output=str(tmp_path / "out"),
        max_steps=4,
        batch_size=8,
        save_steps=2,
        logging_steps=1,
        device="cpu",
    )
    assert json.loads(json.dumps(config.to_dict()))["data"].startswith("datasets:train (24 rows, ")
    with pytest.raises(RunInterrupted):
        run(config, callbacks=[At(3, stop_with(KeyboardInterrupt))])
    other = as_objects()
    other["train"] = datasets.Dataset.from_list(reviews(24, seed=3))
    with pytest.raises(ValueError, match=r"is another one \(data: was datasets:train"):
        run(replace(config, data=other), resume=True)
    with pytest.raises(ValueError, match="stood for an object of `datasets` that is gone"):
        run(RunConfig.from_dict(config.to_dict()), resume=True)
    assert run(replace(config, data=as_objects()), resume=True)["steps"] == 4
