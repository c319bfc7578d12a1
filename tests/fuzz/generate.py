"""The case of a seed."""

from random import Random

from tests.fuzz import folders, presets, rows, words
from tests.fuzz.case import Case

# By how often they come: what is read from outside, by how much of it there is.
AREAS = {
    words.draw_case: 40,
    presets.draw_case: 15,
    rows.draw_case: 20,
    folders.draw_model: 15,
    folders.draw_run: 10,
}


def case_of(seed: int) -> Case:
    draw = Random(seed)
    return draw.choices(list(AREAS), list(AREAS.values()))[0](draw)
