"""SQuAD v1.1's exact match and F1 of an answer against the answers that people gave.

Written out here, for the packages that have them are heavy (torchmetrics) or fetch their code from a hub (evaluate);
the tests hold these lines against torchmetrics.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(answer: str) -> str:
    """Lower case, no ASCII punctuation, no articles, one space between words."""
    # In this order: "A." must lose its point before the article can be seen.
    bare = answer.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact_match(answer: str, truth: str) -> float:
    return float(normalise(answer) == normalise(truth))


def f1(answer: str, truth: str) -> float:
    """Of the words of both, as bags."""
    answered, true = normalise(answer).split(), normalise(truth).split()
    shared = sum((Counter(answered) & Counter(true)).values())
    # Two answers of articles alone share no word: an exact match and F1 0, as the official script of v1.1 has it.
    return 2 * shared / (len(answered) + len(true)) if shared else 0.0


def score_answers(answers: Sequence[str], truths: Sequence[Sequence[str]]) -> dict[str, float]:
    """Means over the questions, in [0, 1]; each answer is held against the truth that suits it best."""
    pairs = list(zip(answers, truths, strict=True))
    return {
        "exact_match": sum(max(exact_match(answer, truth) for truth in these) for answer, these in pairs) / len(pairs),
        "f1": sum(max(f1(answer, truth) for truth in these) for answer, these in pairs) / len(pairs),
    }
