"""ROUGE by Google's rouge-score package, over sentences found by rules that need no download."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from mgpp.tasks.extra import require

TYPES = ("rouge1", "rouge2", "rougeLsum")
# After these a point ends no sentence. Punkt's trained model knows more of them, but has to be fetched.
_ABBREVIATIONS = (
    "mr mrs ms dr prof rev hon sen rep gov gen col capt lt sgt maj adm st jr sr u.s u.k u.n e.u d.c a.m p.m e.g i.e "
    "etc vs inc ltd co corp dept approx jan feb mar apr jun jul aug sep sept oct nov dec"
)


def score_summaries(summaries: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Mean F-measures in [0, 1], words stemmed (Porter), as the usual scripts report them."""
    scorer = require("rouge_score.rouge_scorer").RougeScorer(TYPES, use_stemmer=True)
    totals = dict.fromkeys(TYPES, 0.0)
    for summary, reference in zip(summaries, references, strict=True):
        found = scorer.score("\n".join(sentences(reference)), "\n".join(sentences(summary)))
        for name in TYPES:
            totals[name] += float(found[name].fmeasure)
    return {name: total / len(references) for name, total in totals.items()}


def sentences(text: str) -> list[str]:
    """ROUGE-Lsum unites over sentences: lines, where a text has them (CNN/DailyMail's), and Punkt's within a line."""
    splitter = _splitter()
    return [part for line in text.splitlines() for part in splitter.tokenize(line.strip())]


@cache
def _splitter() -> Any:
    punkt = require("nltk.tokenize.punkt")  # comes with rouge-score
    parameters = punkt.PunktParameters()
    parameters.abbrev_types = set(_ABBREVIATIONS.split())
    return punkt.PunktSentenceTokenizer(parameters)
