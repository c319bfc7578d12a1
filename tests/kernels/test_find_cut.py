"""Compiled, the cut is the twin's, and so is what goes: for every k, in windows of any size."""

import contextlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpp.functional import select as plain
from mgpp.functional.score import curvature, magnitude
from mgpp.kernels import passes
from tests.kernels.conftest import compiled

INF, NAN = float("inf"), float("nan")
ODD = [0.0, -0.0, 1e-45, -1e-40, 1.2e-38, 1e-30, 0.25, 1.0, -1e20, 3e38, INF, -INF, NAN]
NOTHING = (0.0, 0.0)

sizes = st.one_of(
    st.sampled_from(ODD),
    st.floats(width=32),
    st.integers(0, 3000).map(lambda place: 0.5 + place * 2**-24),  # all but their last bits are the same
)
bands = st.tuples(*[st.one_of(st.sampled_from(ODD), st.floats(0, 2, width=32))] * 2)


@contextlib.contextmanager
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def assert_the_twins(weights, inputs, k, band=NOTHING, room=passes.ROOM):
    """The cut, the weights after it, to the bit, and how many of each tensor are zero."""
    score = curvature if any(inputs) else magnitude
    scores = [score(weight, *beside) for weight, beside in zip(weights, inputs, strict=True)]
    mine, expected = ([weight.clone() for weight in weights] for _ in range(2))
    with two_threads():
        found = compiled().find_cut(weights, inputs, k, band, room=room)
        zeros = compiled().zero_below_(mine, inputs, found)
    cut = plain.find_cut(lambda: scores, k, dtype=torch.float32)
    plain.zero_below_(expected, cut, score=score, inputs=inputs)
    assert repr(found) == repr(cut)  # NaN is not equal to itself
    assert zeros == [int((weight == 0).sum()) for weight in expected]
    for actual, wanted in zip(mine, expected, strict=True):
        assert torch.equal(actual.view(torch.int32), wanted.view(torch.int32))


@given(
    tensors=st.lists(st.lists(st.tuples(sizes, sizes), max_size=20), min_size=1, max_size=4).filter(any),
    by=st.sampled_from(["size", "curvature"]),
    share=st.floats(0, 1, exclude_max=True),
    times=st.sampled_from([1, 1, 1, 3000]),  # so often that all threads have some of it
    band=bands,
    room=st.sampled_from([1, 2, 30, passes.ROOM]),
)
@settings(max_examples=150, deadline=None)
def test_whatever_the_numbers(tensors, by, share, times, band, room):
    weights = [torch.tensor([w for w, _ in numbers]).repeat(times) for numbers in tensors]
    moments = [torch.tensor([abs(v) for _, v in numbers]).repeat(times) for numbers in tensors]
    inputs = [(moment, torch.tensor(1e-3)) if by == "curvature" else () for moment in moments]
    k = int(share * sum(weight.numel() for weight in weights))
    assert_the_twins(weights, inputs, k, band, room)


@pytest.mark.parametrize("by", ["size", "curvature"])
@pytest.mark.parametrize("room", [1, passes.ROOM])
def test_whatever_the_count(by, room):
    odd = torch.tensor(ODD)
    weight, moment = (part.flatten() for part in torch.meshgrid(odd, odd.abs(), indexing="ij"))
    inputs = [(moment, torch.tensor(1e-3))] if by == "curvature" else [()]
    for k in range(weight.numel()):
        assert_the_twins([weight], inputs, k, room=room)


@pytest.mark.parametrize(
    ("numbers", "looks"),
    [
        (torch.linspace(0.1, 0.9, 60_000), 1),  # there is room for all
        (torch.linspace(0.1, 0.9, 90_000), 2),
        (0.5 + torch.arange(90_000) % 3000 * 2**-24, 3),
        (0.5 + torch.arange(90_000) % 4 * 2**-24, 4),  # more of one size than there is room for
        (torch.zeros(90_000), 1),
        (torch.full((90_000,), NAN), 1),
    ],
)
def test_without_a_prediction_some_looks_do(numbers, looks):
    assert_the_twins([numbers], [()], 50_000)
    assert compiled().looks == looks


@pytest.mark.parametrize(
    ("band", "looks"),
    [
        ((0.5999, 0.6001), 1),
        ((0.3, 0.9), 2),  # there is no room for all that it holds
        ((0.7, 0.8), 4),  # too high
        ((0.1, 0.2), 4),  # too low
        ((0.6, 0.6), 3),  # empty, as those that follow
        ((INF, INF), 3),
        ((NAN, NAN), 3),
        ((0.8, 0.4), 3),
        ((-1.0, 0.7), 3),
    ],
)
def test_a_narrow_band_that_holds_the_cut_takes_one_look(band, looks):
    numbers = torch.linspace(0, 1, 2_000_001)
    assert_the_twins([numbers], [()], 1_200_000, band)
    assert compiled().looks == looks


def test_a_band_of_one_score_is_none():
    least = 1e-45
    assert_the_twins([torch.arange(1, 2000) * least], [()], 1500, (999 * least, 1000 * least))


@pytest.mark.parametrize("band", [NOTHING, (0.5, NAN)])
@pytest.mark.parametrize("room", [1, passes.ROOM])
def test_nan_is_one_score_whatever_its_bits(band, room):
    bits = torch.tensor([0x7FFFFFFF, 0x7F800001, -1, 0x7FC00000, 0x7F800000, -0x800000], dtype=torch.int32)
    weight = torch.cat([bits.view(torch.float32), torch.tensor([0.25, 0.75, 0.0])])
    for k in range(9):
        assert_the_twins([weight], [()], k, band, room)


def test_ties_go_by_position_over_all_tensors():
    weights = [torch.full((size,), -0.5) for size in (40_000, 0, 1, 50_000)]
    for weight, share in zip(weights, (3, 1, 1, 7), strict=True):
        weight[::share] = 0.25
    for k in (1, 13_334, 13_335, 13_336, 20_478, 20_479, 50_000, 90_000):
        assert_the_twins(weights, [()] * 4, k)


def test_where_subnormal_numbers_are_taken_for_zeros_they_are():
    weight = torch.cat([torch.arange(1, 11) * 1e-45, torch.linspace(0.1, 0.9, 10)])
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no such mode")
    try:
        for k in range(20):
            assert_the_twins([weight], [()], k)
    finally:
        torch.set_flush_denormal(False)
