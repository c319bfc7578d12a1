"""The launches select what the readable twin selects: same weights, same cut, same counts."""

import pytest
import torch

from mgpp.functional import score as scores
from mgpp.functional import select as plain
from mgpp.kernels import select as fast
from mgpp.kernels.layout import lay_out
from mgpp.kernels.select_kernels import HIT
from mgpp.kernels.table import LEAST_CHUNK, Table

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SHAPES = [(3,), (1,), (0,), (50, 257), (64, 130)]


def tensors(shapes, dtype, device, scale=0.05):
    return [(torch.randn(shape) * scale).to(device, dtype) for shape in shapes]


def select_over(weights, first=None, second=None, score="magnitude") -> fast.Selection:
    return fast.Selection(lay_out("select", (weights, first or weights, second or weights), {}), score)


def assert_selects_alike(weights, k, *, selection=None) -> fast.Selection:
    selection = selection or select_over(weights)
    expected = [weight.clone() for weight in weights]
    cut = plain.zero_smallest_(expected, k)
    outcome = fast.zero_smallest_(selection, k)
    for actual, wanted in zip(weights, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0)
    assert outcome.cut() == cut
    assert outcome.zeros() == [int((weight == 0).sum()) for weight in expected]
    return selection


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.9, 0.999])
def test_odd_shapes_of_every_dtype(dtype, share, device):
    weights = tensors(SHAPES, dtype, device)
    assert_selects_alike(weights, int(share * sum(weight.numel() for weight in weights)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", [1e-6, 0.3])
def test_later_events_use_the_last_cut_where_it_is_near_and_do_without_it_where_it_is_not(dtype, step, device):
    weights = tensors(SHAPES, dtype, device)
    k = int(0.8 * sum(weight.numel() for weight in weights))
    selection = None
    for _ in range(3):
        selection = assert_selects_alike(weights, k, selection=selection)
        for weight in weights:
            weight.add_(torch.randn(weight.shape).to(weight) * step)


def test_a_moving_target_is_aimed_at_anew(device):
    weights = tensors([(120, 100)], torch.float32, device)
    selection = None
    for k in (100, 6000, 6001, 11_000, 3, 0):
        fresh = tensors([(120, 100)], torch.float32, device)
        weights[0].copy_(fresh[0])
        selection = assert_selects_alike(weights, k, selection=selection)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e-6, 0.05, 3.0])
def test_the_window_lies_around_what_a_sample_says(dtype, size, device):
    """All of them in less than a window's keys, so that whichever is the sample's cut, the window has the true one."""
    weights = [(size * (1 + torch.rand(30, 400) / 1024)).to(device, dtype)]
    selection = assert_selects_alike(weights, 9000)
    assert selection.told[HIT] == 1


@pytest.mark.parametrize("k", [0, 1, 4999, 5000, 5001, 14_999])
def test_ties_go_by_position(k, device):
    assert_selects_alike([torch.full((5000,), -0.5, device=device), torch.full((100, 100), 0.5, device=device)], k)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_many_equal_to_the_last_cut_are_counted_and_go_by_position(dtype, device):
    near = 0.001 * (torch.rand(41, 200, device=device) - 0.5)  # inside the window, which would hold a cut anyhow
    equal = torch.full((70, 70), 0.5, device=device)
    others = torch.randn(3000, device=device)
    weights = [torch.empty_like(tensor, dtype=dtype) for tensor in (others, near, equal)]
    selection = None
    # The cut is among the first of them, among the last, and then, with the window still around them, just above them.
    for k, middle in ((6000, 0.5), (6000, 0.5), (6001, 0.5), (6001, 0.5), (9000, 0.5), (9000, 0.5), (9000, 0.5006)):
        for weight, first in zip(weights, (others, middle + near, equal), strict=True):
            weight.copy_(first)
        selection = assert_selects_alike(weights, k, selection=selection)


@pytest.mark.parametrize("k", [-1, 12, 13])
def test_so_many_that_none_would_stay_are_refused(k, device):
    weights = tensors([(3, 4)], torch.float32, device)
    before = weights[0].clone()
    with pytest.raises(ValueError, match=rf"k={k}: between 0 and 11, so that one score at least stays"):
        fast.zero_smallest_(select_over(weights), k)
    torch.testing.assert_close(weights[0], before, rtol=0, atol=0)


def test_dtypes_beside_each_other_compare_by_value_and_tie_by_position(device):
    weights = [tensors([(40, 50)], dtype, device, scale=1.0)[0] for dtype in [*DTYPES, torch.float32, torch.bfloat16]]
    weights.append(weights[1].float())
    assert_selects_alike(weights, 9000)


def test_zeros_negative_zeros_infinities_and_denormals_keep_their_order(device):
    values = [0.0, -0.0, 1e-45, -1e-40, 1e-38, float("inf"), -3.0, -float("inf"), 2.0, 0.0]
    for k in range(10):
        assert_selects_alike([torch.tensor(values, device=device), torch.tensor(values, device=device)], k)


def test_a_product_of_two_tensors_can_be_the_score(device):
    weights, first, second = (tensors([(30, 40), (77,)], torch.float32, device) for _ in range(3))
    first, second = [t.abs() for t in first], [t.abs() for t in second]
    expected = [weight.clone() for weight in weights]
    inputs = list(zip(first, second, strict=True))
    cut = plain.zero_smallest_(expected, 900, score=lambda w, a, b: a * b, inputs=inputs)
    outcome = fast.zero_smallest_(select_over(weights, first, second, "product"), 900)
    for actual, wanted in zip(weights, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0)
    assert outcome.cut() == cut


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_curvature_can_be_the_score(dtype, device):
    """In 16 bits too: the score has more bits than either of its factors, and all of them decide."""
    weights, moments = (tensors([(30, 40), (77,)], dtype, device) for _ in range(2))
    moments = [moment.square() for moment in moments]
    corrections = torch.tensor([0.3, 0.9], device=device)
    expected = [weight.clone() for weight in weights]
    inputs = list(zip(moments, corrections, strict=True))
    cut = plain.zero_smallest_(expected, 900, score=scores.curvature, inputs=inputs)
    selection = select_over(weights, weights, moments, "curvature")
    outcome = fast.zero_smallest_(selection, 900, factors=corrections)
    for actual, wanted in zip(weights, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0)
    # torch's square root on a CPU is an ulp off for one number in five.
    assert outcome.cut().value == pytest.approx(cut.value, rel=2e-7)
    assert outcome.cut().below == cut.below


def test_by_curvature_zeros_go_before_weights_without_any(device):
    """So that k is how many are zero afterwards, and what is held at zero needs no mask."""
    weights = tensors([(30, 40), (77,)], torch.float32, device)
    weights[0].view(-1)[600:] = 0
    moments = [torch.zeros_like(weight) for weight in weights]
    moments[0].view(-1)[300:] = 1e-6
    selection = select_over(weights, weights, moments, "curvature")
    outcome = fast.zero_smallest_(selection, 650, factors=1.0)
    assert outcome.zeros() == [650, 0]
    assert [int((weight == 0).sum()) for weight in weights] == [650, 0]


def test_by_curvature_zeros_go_first_where_a_gradients_square_is_infinite_too(device):
    weights = tensors([(30, 40)], torch.float32, device)
    weights[0].view(-1)[600:] = 0
    moments = [torch.full_like(weights[0], 1e-6)]
    moments[0].view(-1)[::3] = float("inf")
    expected = [weight.clone() for weight in weights]
    plain.zero_smallest_(expected, 650, score=scores.curvature, inputs=[(moments[0], torch.ones((), device=device))])
    selection = select_over(weights, weights, moments, "curvature")
    assert fast.zero_smallest_(selection, 650, factors=1.0).zeros() == [650]
    torch.testing.assert_close(weights, expected, rtol=0, atol=0)


def test_what_is_kept_between_events_stays_under_a_mebibyte_at_seven_billion_weights(device):
    shapes = ([4096 * 4096] * 4 + [11008 * 4096] * 3) * 32
    table = Table(shapes, device)
    assert table.chunks <= fast.WINDOW
    assert table.chunk > LEAST_CHUNK
    weights = tensors(SHAPES, torch.float32, device)
    selection = select_over(weights)
    held = [value for value in vars(selection).values() if isinstance(value, torch.Tensor)]
    assert sum(tensor.nbytes for tensor in held) + 8 * 3 * len(shapes) < 1 << 20
