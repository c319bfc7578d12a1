"""The ramp is the paper's, at every index."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpp.functional.schedule import cooling, cubic_sparsity, is_event, linear, prior_warm_up


def test_the_ramp_follows_equation_1_step_by_step():
    ramp = [cubic_sparsity(t, start=2, end=6, final=0.8) for t in range(1, 9)]
    assert ramp == [0.0, 0.0, *(0.8 - 0.8 * (1 - x / 4) ** 3 for x in (1, 2, 3)), 0.8, 0.8, 0.8]


def test_an_initial_sparsity_starts_the_ramp_there_and_not_before():
    assert cubic_sparsity(9, start=10, end=20, final=0.9, initial=0.3) == 0.0
    assert cubic_sparsity(10, start=10, end=20, final=0.9, initial=0.3) == pytest.approx(0.3)
    assert cubic_sparsity(20, start=10, end=20, final=0.9, initial=0.3) == 0.9


@given(start=st.integers(0, 100), length=st.integers(1, 1000), final=st.floats(0, 0.999), share=st.floats(0, 1))
def test_the_ramp_never_falls_and_ends_at_its_target(start, length, final, share):
    at = [
        cubic_sparsity(t, start=start, end=start + length, final=final, initial=share * final)
        for t in range(1, start + length + 3)
    ]
    # (1-x)³ is rounded: neighbours may differ by an ulp where the ramp is flat.
    assert all(later >= earlier - 1e-15 for earlier, later in pairwise(at))
    assert at[-1] == final


def test_the_prior_warms_up_linearly_until_the_ramp_starts():
    assert [prior_warm_up(t, start=4) for t in range(1, 7)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert prior_warm_up(1, start=0) == 1.0


def test_events_come_every_few_steps_then_at_every_step_and_at_the_last():
    assert [t for t in range(1, 13) if is_event(t, start=3, end=9, every=4, last=12)] == [4, 8, 10, 11, 12]
    assert [t for t in range(1, 11) if is_event(t, start=3, end=10, every=4, last=10)] == [4, 8, 10]


def test_where_zeros_are_held_the_first_event_at_full_sparsity_is_the_last():
    assert [t for t in range(1, 13) if is_event(t, start=3, end=9, every=4, last=12, held=True)] == [4, 8, 10]
    assert [t for t in range(1, 13) if is_event(t, start=3, end=8, every=4, last=12, held=True)] == [4, 8]
    assert [t for t in range(1, 11) if is_event(t, start=3, end=10, every=4, last=10, held=True)] == [4, 8, 10]


def test_a_line_is_flat_outside_the_ramp():
    at = [linear(t, start=2, end=6, initial=0.5, final=0.1) for t in range(1, 8)]
    assert at == pytest.approx([0.5, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1])
    assert at[-1] == 0.1


def test_cooling_starts_after_the_ramp():
    assert [cooling(t, end=3) for t in range(1, 7)] == [1.0, 1.0, 1.0, 1.0, 1 / 2, 1 / 3]
