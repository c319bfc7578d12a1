"""Every method has a card, with the same headings and code to run (tests/test_pages.py runs it)."""

import re

import pytest

from mgpp.methods import METHODS
from tests.pages import ROOT, blocks_of

CARDS = ROOT / "docs" / "methods"
HEADINGS = [
    "What it does",
    "Equation",
    "Use it",
    "Settings that work",
    "Where it departs from its paper",
    "Results",
    "Cost",
    "Citation",
]


def text_of(name: str) -> str:
    return (CARDS / f"{name}.md").read_text(encoding="utf-8")


def test_every_method_has_a_card_and_every_card_a_method():
    assert {path.stem for path in CARDS.glob("*.md")} == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_card_has_the_headings_of_all_cards(name):
    assert re.findall(r"^## (.+)$", text_of(name), flags=re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("name", METHODS)
def test_a_card_shows_code(name):
    assert [block for block in blocks_of(CARDS / f"{name}.md") if block.language == "python"]
