"""Masks over all tensors in one launch are the readable twin's, bit for bit."""

import pytest
import torch

from mgpp.functional import mask as plain
from mgpp.kernels import cpu, mask
from mgpp.kernels.layout import lay_out
from tests.kernels.test_select import DTYPES, SHAPES, tensors

ONE_OF_MANY = [(1,), (8192,), (8193,), (0,), (3, 1024)]


def masks_for(weights):
    return [(torch.rand(weight.shape) < 0.4).to(weight.device) for weight in weights]


def assert_same_bits(actual, expected) -> None:
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(torch.signbit(mine), torch.signbit(theirs))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", [SHAPES, ONE_OF_MANY])
def test_odd_shapes_of_every_dtype(dtype, shapes, device):
    weights = tensors(shapes, dtype, device)
    keeps = masks_for(weights)
    weights[3].view(-1)[:3] = float("nan")
    expected = [weight.clone() for weight in weights]
    plain.mask_(expected, keeps)
    mask.mask_(lay_out("mask", (weights, keeps, weights), {}))
    assert_same_bits(weights, expected)


def test_from_another_tensor_and_with_dtypes_beside_each_other(device):
    weights = [tensors([(40, 50)], dtype, device)[0] for dtype in [*DTYPES, torch.float32]]
    sources = [torch.randn(weight.shape).to(weight) for weight in weights]
    keeps = masks_for(weights)
    before = [source.clone() for source in sources]
    mask.mask_(lay_out("mask", (weights, keeps, sources), {}))
    assert_same_bits(sources, before)
    expected = [torch.empty_like(weight) for weight in weights]
    plain.mask_(expected, keeps, sources=sources)
    assert_same_bits(weights, expected)


def test_tensors_of_one_dtype_take_one_launch(device, monkeypatch):
    launches = []
    kernel = mask._mask_kernel

    class Counted:
        def __getitem__(self, grid):
            launches.append(grid)
            return kernel[grid]

    monkeypatch.setattr(mask, "_mask_kernel", Counted())
    weights = tensors(SHAPES, torch.float32, device)
    mask.mask_(lay_out("mask", (weights, masks_for(weights), weights), {}))
    assert len(launches) == 1


@pytest.mark.parametrize("dtype", [torch.float64, *DTYPES])
def test_a_cpu_masks_by_bits_what_the_twin_masks_by_choice(dtype):
    weights = [*tensors([*SHAPES, ()], dtype, "cpu"), torch.randn(33, 40).to(dtype).T]
    keeps = masks_for(weights)
    weights[3].view(-1)[:3] = float("nan")
    expected = [weight.clone() for weight in weights]
    plain.mask_(expected, keeps)
    cpu.mask_(weights, keeps)
    assert_same_bits(weights, expected)
