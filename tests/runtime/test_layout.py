"""The packed form holds the same matrix, and its readable product is the dense one."""

import pytest
import torch

from mgpp.runtime import layout
from mgpp.runtime.layout import pack, unpack
from tests.runtime.matrices import SIZES, pruned, relative_error


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("size", SIZES)
def test_unpacking_gives_the_same_bits(size, density, paired):
    weight = pruned(*size, density=density, paired=paired)
    assert torch.equal(unpack(pack(weight)), weight.where(weight != 0, 0.0))


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_the_readable_product_is_the_dense_one(size, paired):
    weight = pruned(*size, paired=paired)
    x, bias = torch.randn(5, size[1]), torch.randn(size[0])
    expected = torch.nn.functional.linear(x.double(), weight.double(), bias.double())
    assert relative_error(layout.multiply(pack(weight), x, bias), expected) < 1e-6
    assert relative_error(layout.multiply(pack(weight), x, None), expected - bias) < 1e-5


@pytest.mark.parametrize("size", SIZES)
def test_the_csr_form_is_the_same_matrix(size):
    weight = pruned(*size)
    csr = layout.to_csr(pack(weight))
    assert csr.col_indices().dtype == torch.int32
    assert torch.equal(csr.to_dense(), weight)


def test_rows_in_pairs_are_found_and_others_are_not():
    assert pack(pruned(128, 300, paired=True)).tied == 2
    assert pack(pruned(127, 300, paired=True)).tied == 2
    assert pack(pruned(128, 300)).tied == 1
    assert pack(pruned(128, 300, density=1.0)).tied == 2  # no zeros: every pair shares all columns


def test_a_pair_with_a_few_holes_is_still_a_pair():
    weight = pruned(128, 300, paired=True)
    weight[torch.rand_like(weight) < 0.05] = 0
    packed = pack(weight)
    assert packed.tied == 2
    assert torch.equal(unpack(packed), weight)
    assert packed.nonzeros == int(torch.count_nonzero(weight))


def test_a_weight_takes_five_bytes_and_lines_stand_by_length():
    packed = pack(pruned(768, 768, density=0.1))
    assert packed.density == pytest.approx(0.1, abs=0.01)
    assert packed.nbytes < 6 * packed.nonzeros
    counts = packed.lines[:, 1]
    for begin, end in zip(packed.starts[:-1, 1], packed.starts[1:, 1], strict=True):
        assert torch.equal(counts[begin:end], counts[begin:end].sort(descending=True).values)
