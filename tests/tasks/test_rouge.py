"""ROUGE is rouge-score's; what we add is where a sentence ends."""

import pytest

rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")

from mgpp.tasks.rouge import score_summaries, sentences  # noqa: E402


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He came. She left!", ["He came.", "She left!"]),
        ("A kidney to a stranger .\nA program helped .", ["A kidney to a stranger .", "A program helped ."]),
        ("Mr. Smith met Dr. No on Jan. 3 at 5 p.m. in Paris.", ["Mr. Smith met Dr. No on Jan. 3 at 5 p.m. in Paris."]),
        ("It cost $3.50. Really?", ["It cost $3.50.", "Really?"]),
        ("no point at all", ["no point at all"]),
        ("one line\n\n  \nanother", ["one line", "another"]),
        ("", []),
    ],
)
def test_sentences_are_lines_and_what_punkt_finds_in_them(text, expected):
    assert sentences(text) == expected


def test_scores_are_the_packages_over_newline_separated_sentences():
    summaries = ["The cat sat. The dogs were barking.", "nothing alike"]
    references = ["Dogs barked.\nThe cat sat there.", "A man walked into it."]
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeLsum"], use_stemmer=True)
    split = [
        ("Dogs barked.\nThe cat sat there.", "The cat sat.\nThe dogs were barking."),
        (references[1], summaries[1]),
    ]
    expected = [scorer.score(target, prediction) for target, prediction in split]
    found = score_summaries(summaries, references)
    assert found == {name: pytest.approx(sum(s[name].fmeasure for s in expected) / 2) for name in found}
    assert set(found) == {"rouge1", "rouge2", "rougeLsum"}


def test_lsum_does_not_mind_the_order_of_sentences():
    text = "The cat sat there. A dog barked."
    other = "A dog barked. The cat sat there."
    assert score_summaries([text], [other])["rougeLsum"] == 1.0


def test_an_empty_summary_scores_nothing():
    assert score_summaries([""], ["A dog barked."]) == {"rouge1": 0.0, "rouge2": 0.0, "rougeLsum": 0.0}
