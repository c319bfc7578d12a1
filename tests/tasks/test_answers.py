"""Exact match and F1 are SQuAD's own: the cases that its normalisation was made for, and torchmetrics."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpp.tasks.answers import exact_match, f1, normalise, score_answers


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The Eiffel Tower", "eiffel tower"),
        ("an  apple\t a day\n", "apple day"),
        ("A.", ""),  # the point goes before the article does
        ("the.", ""),
        ("theatre, another, ana", "theatre another ana"),  # an article is a whole word
        ("Denver Broncos!", "denver broncos"),
        ("U.S.A.", "usa"),
        ("$1,000.50", "100050"),
        ("rock-n-roll", "rocknroll"),
        ("it's", "its"),
        ("naïve Café", "naïve café"),
        ("“quoted” – dash", "“quoted” – dash"),  # only ASCII punctuation goes
        ("", ""),
    ],
)
def test_an_answer_is_normalised_as_the_official_script_does(answer, expected):
    assert normalise(answer) == expected


def test_f1_counts_shared_words_as_bags():
    assert f1("the cat sat", "a cat sat down") == pytest.approx(2 * 2 / (2 + 3))
    assert f1("cat cat dog", "cat dog dog") == pytest.approx(2 * 2 / 6)
    assert f1("bird", "cat") == 0.0


def test_two_bare_articles_match_exactly_and_share_no_word():
    assert (exact_match("the", "an"), f1("the", "an")) == (1.0, 0.0)


def test_the_truth_that_suits_best_counts():
    scores = score_answers(["in October 1973", "Paris"], [["1973", "October 1973"], ["Rome"]])
    assert scores == {"exact_match": 0.0, "f1": pytest.approx((2 * 2 / 5) / 2)}
    assert score_answers(["The October 1973."], [["1973", "October 1973"]]) == {"exact_match": 1.0, "f1": 1.0}


words = st.lists(
    st.sampled_from(["the", "a", "an", "An", "cat", "Cat", "dog.", "U.S.", "1,000", "é", "-", "x"]), max_size=6
).map(" ".join)
# Where nothing is left of an answer, torchmetrics goes by v2's rule for questions that have none.
answers = st.one_of(words, st.text(alphabet=string.printable + "é–“”", max_size=12)).filter(normalise)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(answers, st.lists(answers, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_torchmetrics_agrees(cases):
    squad = pytest.importorskip("torchmetrics.functional.text").squad
    theirs = squad(
        [{"prediction_text": answer, "id": str(number)} for number, (answer, _) in enumerate(cases)],
        [
            {"answers": {"text": truths, "answer_start": [0] * len(truths)}, "id": str(number)}
            for number, (_, truths) in enumerate(cases)
        ],
    )
    ours = score_answers(*zip(*cases, strict=True))
    assert 100 * ours["exact_match"] == pytest.approx(float(theirs["exact_match"]), abs=1e-3)
    assert 100 * ours["f1"] == pytest.approx(float(theirs["f1"]), abs=1e-3)
