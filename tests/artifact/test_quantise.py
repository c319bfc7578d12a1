"""int8 rows: half a step of error at most, zeros stay zeros, and one loud row does not coarsen the others."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from mgpp.artifact.quantise import dequantise_rows, quantise_rows


@given(st.integers(1, 6), st.integers(1, 9), st.floats(1e-3, 1e3), st.integers(0, 2**31))
def test_the_error_is_at_most_half_a_step_of_the_row(rows, columns, spread, seed):
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * spread
    quantised, scale = quantise_rows(weight)
    back = dequantise_rows(quantised, scale, torch.float32)
    half_step = weight.abs().amax(dim=1, keepdim=True) / 127 / 2
    assert bool(((back - weight).abs() <= half_step * (1 + 1e-5)).all())


def test_zeros_stay_zeros_and_the_largest_of_a_row_is_127():
    quantised, _ = quantise_rows(torch.tensor([[0.0, -4.0, 1.0], [0.0, 0.0, 0.0]]))
    assert quantised.tolist() == [[0, -127, 32], [0, 0, 0]]


def test_a_loud_row_leaves_the_others_as_fine_as_they_were():
    weight = torch.tensor([[1.0, 0.5], [1e6, 1.0]])
    quantised, scale = quantise_rows(weight)
    torch.testing.assert_close(dequantise_rows(quantised, scale, torch.float32)[0], weight[0], rtol=0, atol=0.004)


def test_numbers_too_small_for_a_scale_become_zeros():
    quantised, scale = quantise_rows(torch.full((2, 3), 1e-45))
    assert not dequantise_rows(quantised, scale, torch.float32).any()


def test_a_row_lies_along_the_last_axis_whatever_stands_before_it():
    weight = torch.randn(2, 3, 4, 5)
    quantised, scale = quantise_rows(weight)
    assert (quantised.shape, scale.shape) == (weight.shape, (24,))
