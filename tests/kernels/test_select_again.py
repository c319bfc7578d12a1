"""A cut that has left its window is the smallest above the floor, if none has grown past that; else it is found in a
wider window around the same place, and only past that digit by digit."""

import struct
from dataclasses import replace

import pytest
import torch

from mgpp.functional import score as scores
from mgpp.functional import select as plain
from mgpp.kernels import adamw as fast_adamw
from mgpp.kernels import select as fast
from mgpp.kernels.layout import lay_out
from mgpp.kernels.select_kernels import CUT, HIT
from tests.kernels.test_select import assert_selects_alike, select_over
from tests.kernels.test_step import ADAM

KEPT = 1000
GONE = 9000  # so many does each event zero
FOUND, ABOVE_FLOOR, LOST = 1, 2, -1


def key_of(value: float) -> int:
    return int(struct.unpack("i", struct.pack("f", value))[0])


def value_of(key: int) -> float:
    return float(struct.unpack("f", struct.pack("i", key))[0])


def with_gap(least: float, device, *, grown: bool = False) -> torch.Tensor:
    """What was zeroed has grown a little, and far above it lies what was kept. Its smallest is not in the sample.
    `grown`: one of those that were zeroed has grown past `least`, and one that was kept goes in its place."""
    gone, kept = 1e-6 * torch.rand(GONE, device=device), least * (1.5 + torch.rand(KEPT, device=device))
    kept[1] = least
    if grown:
        gone[7], kept[2] = 2 * least, 0.7 * least
    return torch.cat([gone, kept])


def find_again(before: torch.Tensor, after: torch.Tensor, k: int = GONE) -> tuple[int, int]:
    """Two events at one target, whose second cut is not in the first one's window: where it was found, and its key."""
    weights = [before]
    selection = assert_selects_alike(weights, k)
    low = int(selection.low[0])
    weights[0].copy_(after)
    assert_selects_alike(weights, k, selection=selection)
    cut = int(selection.told[CUT])
    assert not low <= cut < low + fast.WINDOW
    assert int(selection.low[0]) == max(cut - fast.WINDOW // 2, 1)
    return int(selection.told[HIT]), cut


@pytest.mark.parametrize("moved_by", [0.9, 0.95, 0.995, 1.005, 1.05, 1.12])
def test_a_smallest_kept_weight_that_moves_by_some_percent_is_found_in_the_wider_window(moved_by, device):
    found, _ = find_again(with_gap(1.0, device), with_gap(moved_by, device, grown=True))
    assert found == FOUND


@pytest.mark.parametrize("moved_by", [0.01, 0.5, 0.99, 1.01, 2.0, 1e6])
def test_where_none_has_grown_past_the_floor_the_smallest_above_it_is_the_cut(moved_by, device):
    found, cut = find_again(with_gap(1.0, device), with_gap(moved_by, device))
    assert (found, cut) == (ABOVE_FLOOR, key_of(moved_by))


def test_the_floor_lies_amid_what_went_and_what_stayed(device):
    before = with_gap(1.0, device)
    went = key_of(float(before[:GONE].max()))
    floor = int(assert_selects_alike([before.clone()], GONE).low[1])
    assert floor == went + (key_of(1.0) - went + 1) // 2
    for key, expected in ((floor, ABOVE_FLOOR), (floor - 1, LOST)):
        after = before.clone()
        after[GONE + 1] = value_of(key)
        assert find_again(before.clone(), after) == (expected, key)


def test_ties_above_the_floor_all_stay(device):
    after = with_gap(1.0, device)
    after[GONE:] = 3.0
    assert find_again(with_gap(1.0, device), after) == (ABOVE_FLOOR, key_of(3.0))


@pytest.mark.parametrize("moved_by", [1 / 3, 3.0])
def test_one_that_moves_past_the_wider_window_is_found_digit_by_digit(moved_by, device):
    found, _ = find_again(with_gap(1.0, device), with_gap(moved_by, device, grown=True))
    assert found == LOST


def test_the_wider_window_ends_where_it_should(device):
    middle, reach = key_of(1.0), fast.WINDOW << fast.COARSE >> 1
    for key, expected in (
        (middle - reach, FOUND), (middle - reach - 1, LOST), (middle + reach - 1, FOUND), (middle + reach, LOST),
    ):  # fmt: skip
        assert find_again(with_gap(1.0, device), with_gap(value_of(key), device, grown=True)) == (expected, key)


@pytest.mark.parametrize("place", [0, 1, 62, 63])
def test_ties_and_neighbours_that_share_a_counter_are_told_apart(place, device):
    """The cut's key is anywhere among the 64 of a counter; it and those beside it are forty weights' each."""
    cut = key_of(1.0) + (1000 << fast.COARSE) + place
    near = [value_of(cut + offset) for offset in (-1, 0, 1, 63) for _ in range(40)]
    after = with_gap(2.0, device)
    after[-len(near) - 60 : -60] = torch.tensor(near, device=device)[torch.randperm(len(near))]
    after[: KEPT : KEPT // 60] = 3.0  # as many fewer lie below, so that some of the ties go
    below = int((after < value_of(cut)).sum())
    assert GONE - 40 < below < GONE
    assert find_again(with_gap(1.0, device), after) == (FOUND, cut)


def test_all_equal_to_a_cut_that_has_moved_go_by_position(device):
    found, cut = find_again(with_gap(1.0, device), torch.full((GONE + KEPT,), -1.05, device=device))
    assert (found, cut) == (FOUND, key_of(1.05))


@pytest.mark.parametrize("moved_by", [0.9, 1.1])
def test_a_cut_amid_many_others_is_found_there_too(moved_by, device):
    before = torch.randn(GONE + KEPT, device=device)
    found, _ = find_again(before.clone(), moved_by * before)
    assert found == FOUND


@pytest.mark.parametrize(
    ("last", "now", "expected"),
    [(2_000_000, 1, FOUND), (2_000_000, 40, FOUND), (40, 2_000_000, ABOVE_FLOOR), (1, 4_000_000, ABOVE_FLOOR)],
)
def test_among_the_lowest_keys_the_wider_window_begins_above_zero(last, now, expected, device):
    before, after = with_gap(1.0, device), with_gap(1.0, device)
    for weight, key in ((before, last), (after, now)):
        weight[:GONE] = 0
        weight[GONE + 1] = value_of(key)
    assert find_again(before, after) == (expected, now)


@pytest.mark.parametrize("now", [3.4e38, float("inf")])
def test_among_the_largest_keys_it_ends_past_infinity(now, device):
    before, after = (torch.full((GONE + KEPT,), float("inf"), device=device) for _ in range(2))
    for weight, least in ((before, 3.1e38), (after, now)):
        weight[:GONE] = 1.0
        weight[GONE + 1] = least
    after[7], after[GONE + 2] = float("inf"), 3e38  # one has grown, another goes in its place
    assert find_again(before, after) == (FOUND, key_of(now))


@pytest.mark.parametrize(("k", "expected"), [(0, ABOVE_FLOOR), (GONE + KEPT - 1, FOUND)])
def test_the_smallest_and_the_largest_of_all_can_be_the_cut(k, expected, device):
    before = 1 + torch.rand(GONE + KEPT, device=device)
    found, _ = find_again(before.clone(), 0.95 * before, k)
    assert found == expected


def test_a_narrow_window_of_16_bits_is_aimed_again_by_the_sample(device):
    before = torch.tensor([0.5, 1.0, 2.0], device=device).repeat_interleave(torch.tensor([4000, 2000, 4000]).to(device))
    before = before[torch.randperm(len(before), device=device)].bfloat16()  # no sample misses the middle third
    weights = [before.clone()]
    selection = assert_selects_alike(weights, 5000)
    weights[0].copy_(1.3 * before)
    assert_selects_alike(weights, 5000, selection=selection)
    assert int(selection.told[HIT]) == FOUND


def events_by_curvature(device, *, lr: float, count: int) -> list[int]:
    """Each as the twin has it, after a step that has counted for it and moved the smallest of the kept out of the
    window: where they were found."""
    size, correction, found = GONE + KEPT, ADAM.correction2, []
    weights, grads = [with_gap(1.0, device)], [0.01 * torch.randn(size, device=device)]
    means, squares = [torch.zeros(size, device=device)], [1e-4 * correction * (1 + torch.rand(size, device=device))]
    selection = select_over(weights, weights, squares, "curvature")
    fast.zero_smallest_(selection, GONE, factors=correction)
    layout = lay_out("adamw", (weights, grads, means, squares), {})
    flags = fast_adamw.flags_of(layout, [True], {})
    for _ in range(count):
        low = int(selection.low[0])
        fast_adamw.adamw_(layout, flags, replace(ADAM, lr=lr), selection=selection)
        expected = [weight.clone() for weight in weights]
        inputs = [(squares[0], torch.tensor(correction, dtype=torch.float32))]
        cut = plain.zero_smallest_(expected, GONE, score=scores.curvature, inputs=inputs)
        outcome = fast.zero_smallest_(selection, GONE, factors=correction, counted=True)
        torch.testing.assert_close(weights, expected, rtol=0, atol=0)
        # torch's square root on a CPU is an ulp off for one number in five.
        assert outcome.cut().value == pytest.approx(cut.value, rel=2e-7)
        assert (outcome.cut().below, outcome.cut().ties) == (cut.below, cut.ties)
        assert not low <= int(selection.told[CUT]) < low + fast.WINDOW
        found.append(int(selection.told[HIT]))
    return found


def test_a_cut_that_the_optimizers_own_count_missed_is_found_too(device):
    """In the first step all move by the learning rate, far past a floor that lies amid 1e-6 and 1."""
    assert events_by_curvature(device, lr=0.1, count=1) == [FOUND]


def test_the_optimizers_own_count_finds_what_lies_above_the_floor(device):
    assert events_by_curvature(device, lr=0.02, count=3)[1:] == [ABOVE_FLOOR, ABOVE_FLOOR]
