"""A run may be scored on rows that it would have learnt from, so that the validation rows stay unseen."""

import pytest

pytest.importorskip("datasets")

from mgpp.tasks import HOLDOUT, Source, training_task


def test_a_share_of_the_training_rows_takes_the_place_of_the_validation_rows(tiny_bert, tiny_reviews):
    source = Source(data=str(tiny_reviews), eval_split=HOLDOUT, holdout=0.25)
    task = training_task("text", str(tiny_bert), source, seed=3)
    everything = training_task("text", str(tiny_bert), Source(data=str(tiny_reviews)), seed=3)
    assert (len(task.train), task.eval_rows) == (36, 12)
    assert task.notes[-1] == "as asked: 12 of 48 training rows are held out (25%, seed 3) and scored on"
    learnt = sorted(map(tuple, [*task.train["input_ids"], *task.evaluation["input_ids"]]))
    assert learnt == sorted(map(tuple, everything.train["input_ids"]))


def test_other_evaluation_data_is_left_alone_too(tiny_bert, tiny_reviews):
    source = Source(data=str(tiny_reviews), eval_data=str(tiny_reviews), eval_split=HOLDOUT)
    assert training_task("text", str(tiny_bert), source, seed=0).eval_rows == 5
