"""Rows that go are zeroed, and zeros counted, in one launch: what the readable twin does."""

import pytest
import torch

from mgpp.functional import rows as plain
from mgpp.kernels import rows as fast
from mgpp.kernels.layout import lay_out
from tests.kernels.test_mask import assert_same_bits
from tests.kernels.test_select import DTYPES, tensors

SHAPES = [(3, 5), (1, 1), (0, 4), (50, 257), (64, 130), (2, 9000)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_odd_shapes_of_every_dtype(dtype, device):
    weights = tensors(SHAPES, dtype, device)
    weights[3][4, :7] = 0  # zeros of its own
    expected = [weight.clone() for weight in weights]
    gone = (torch.rand(sum(shape[0] for shape in SHAPES)) < 0.6).to(device)
    plain.zero_rows_(expected, gone)
    layout = lay_out("rows", (weights,), {})
    zeros = fast.zero_rows_(layout, [weight.shape for weight in weights], gone, {})
    assert_same_bits(weights, expected)
    assert zeros.tolist() == [int((weight == 0).sum()) for weight in expected]


def test_dtypes_beside_each_other(device):
    weights = [tensors([(40, 50)], dtype, device)[0] for dtype in [*DTYPES, torch.float32]]
    expected = [weight.clone() for weight in weights]
    gone = (torch.rand(160) < 0.3).to(device)
    plain.zero_rows_(expected, gone)
    fast.zero_rows_(lay_out("rows", (weights,), {}), [weight.shape for weight in weights], gone, {})
    assert_same_bits(weights, expected)


@pytest.mark.parametrize("asked", [-3, 0, 1, 8, 9, 200, 1000])
def test_the_fewest_rows_that_are_enough_go_lowest_means_first_ties_by_position(asked, device):
    means = [torch.randint(0, 4, (20,)).float().to(device), torch.randint(0, 4, (30,)).float().to(device)]
    rows = plain.lowest_rows(means, [8, 12], asked)
    order = torch.cat(means).cpu().argsort(stable=True).tolist()
    left, going = asked, []
    while left > 0 and len(going) < 50:
        going.append(order[len(going)])
        left -= 8 if going[-1] < 20 else 12
    assert rows.gone.nonzero().flatten().tolist() == sorted(going)
    assert min(int(rows.count), 50) == len(going)
    assert float(rows.cut) == float(torch.cat(means)[order[min(len(going), 49)]])
