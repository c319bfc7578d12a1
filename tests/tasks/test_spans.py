"""The best spans are the best there are, inside the context, and not too long."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpp.tasks.spans import Span, best_spans, choose_answer


def every_span(starts, ends, offsets, max_answer_length):
    """The readable twin: all pairs, sorted."""
    found = []
    for first in range(len(offsets)):
        for last in range(first, min(first + max_answer_length, len(offsets))):
            if offsets[first][0] >= 0 and offsets[last][0] >= 0:
                found.append(Span(float(starts[first]) + float(ends[last]), offsets[first][0], offsets[last][1]))
    return sorted(found, key=lambda span: -span.score)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_no_span_is_missed(data):
    size = data.draw(st.integers(1, 12))
    inside = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    offsets = [(3 * number, 3 * number + 2) if here else (-1, -1) for number, here in enumerate(inside)]
    logits = st.lists(st.integers(-4, 4), min_size=size, max_size=size)
    starts, ends = (np.array(data.draw(logits), dtype=np.float32) for _ in range(2))
    length, n_best = data.draw(st.integers(1, 15)), data.draw(st.integers(1, 30))
    found = best_spans(starts, ends, offsets, n_best=n_best, max_answer_length=length)
    assert found == every_span(starts, ends, offsets, length)[:n_best]


def test_the_cls_token_never_answers_however_sure_the_model_is():
    offsets = [(-1, -1), (-1, -1), (0, 3), (4, 7), (-1, -1)]
    starts, ends = np.array([9.0, 8, 1, 0, 9]), np.array([9.0, 8, 0, 1, 9])
    assert best_spans(starts, ends, offsets, n_best=1, max_answer_length=30) == [Span(2.0, 0, 7)]


def test_padding_of_a_batch_is_not_looked_at():
    starts = np.array([0.0, 1, 0, 99, 99])
    assert best_spans(starts, starts, [(-1, -1), (0, 3), (4, 7)], n_best=1, max_answer_length=2)[0].score == 2.0


def test_a_window_without_context_has_no_span():
    assert best_spans(np.zeros(3), np.zeros(3), [(-1, -1)] * 3, n_best=20, max_answer_length=30) == []


@pytest.mark.parametrize(
    ("spans", "answer"),
    [
        ([Span(1.0, 0, 3), Span(2.0, 3, 7)], "cat"),  # the best of all windows, without the space before it
        ([Span(9.0, 3, 4), Span(2.0, 0, 3)], "The"),  # a blank is no answer
        ([], ""),
    ],
)
def test_the_best_text_that_is_not_blank_is_the_answer(spans, answer):
    assert choose_answer("The cat sat", spans) == answer
