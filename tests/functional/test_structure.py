"""Words become structures, and structures say how many weights they can take."""

import pytest

from mgpp.functional.structure import Blocks, Groups, parse_structure


@pytest.mark.parametrize(
    ("word", "structure"),
    [("2x1", Blocks(2, 1)), ("4x4", Blocks(4, 4)), ("32x1", Blocks(32, 1)), ("2:4", Groups(2, 4))],
)
def test_a_word_is_read_and_written_back(word, structure):
    assert parse_structure(word) == structure
    assert str(structure) == word


@pytest.mark.parametrize(
    "word", ["", "2", "2x", "x1", "2 x 1", "-2x1", "2x1x1", "2.5x1", "2:", "two:four", "²x1", 24, 2.4, True, ["2x1"]]
)
def test_another_word_is_refused_with_the_two_forms(word):
    with pytest.raises(ValueError, match=r'structure=.*"2:4".*"2x1"'):
        parse_structure(word)


@pytest.mark.parametrize("word", ["0:4", "4:4", "5:4", "0x1", "2x0"])
def test_a_structure_that_keeps_all_or_nothing_is_refused(word):
    with pytest.raises(ValueError, match=f'structure="{word}"'):
        parse_structure(word)


def test_blocks_take_what_fits_and_miss_less_than_one():
    shapes = [(12, 8), (8, 12)]
    assert Blocks(4, 4).most(shapes, 0.75) == 144
    assert Blocks(4, 4).least(shapes, 0.75) == 144 - 15
    assert Blocks(1, 1).least(shapes, 0.75) == 144
    assert Blocks(4, 4).least(shapes, 0.0) == 0


def test_groups_take_all_they_can_at_their_own_sparsity_and_no_more_before():
    assert Groups(2, 4).sparsity == 0.5
    assert Groups(2, 4).most([(3, 8)], 0.5) == 12
    assert Groups(2, 4).most([(3, 8)], 0.3) == int(0.3 * 24)
    # Two groups of four, and one of three or two that keeps two.
    assert Groups(2, 4).most([(3, 11)], 0.5) == 3 * (2 + 2 + 1)
    assert Groups(2, 4).most([(3, 10)], 0.5) == 3 * (2 + 2)
    assert Groups(2, 4).most([(3, 10)], 0.49) == 3 * (2 + 2)
    assert Groups(1, 4).most([(5, 1)], 0.75) == 0


@pytest.mark.parametrize("members", range(2, 50))
def test_rounding_never_costs_the_last_weight_of_a_pattern(members):
    groups = Groups(1, members)
    assert groups.most([(7, 3 * members)], groups.sparsity) == 7 * 3 * (members - 1)
