"""The compiled kernel against its readable twin, for every instruction set this machine can run."""

import pytest
import torch

from mgpp.runtime import layout, paths
from mgpp.runtime.layout import pack
from tests.runtime.matrices import SIZES, TOKENS, pruned, relative_error


@pytest.mark.parametrize("paired", [False, True])
def test_the_kernel_is_its_twin_for_every_size_and_number_of_tokens(kernel, paired):
    for size in SIZES:
        packed = pack(pruned(*size, paired=paired))
        product, bias = kernel.bind(packed), torch.randn(size[0])
        x = torch.randn(max(TOKENS), size[1])
        expected = layout.multiply(packed, x, bias)
        for tokens in TOKENS:
            filled = expected.index_copy(0, torch.arange(tokens), product(x[:tokens], bias))
            assert relative_error(filled, expected) < 1e-6, (size, tokens)


@pytest.mark.parametrize("paired", [False, True])
def test_many_threads_share_a_product_as_one_does_it(compiled, paired):
    weight = pruned(700, 500, paired=paired)
    weight[300:] = 0  # the chunks have unequal work, some of them none
    product, x = compiled.bind(pack(weight)), torch.randn(333, 500)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = product(x, None)
        for threads in (2, 3, 7):
            torch.set_num_threads(threads)
            for tokens in (20, 64, 130, 333):
                torch.testing.assert_close(product(x[:tokens], None), alone[:tokens], msg=f"{threads}, {tokens}")
    finally:
        torch.set_num_threads(before)


def test_a_matrix_of_zeros_gives_the_bias(compiled):
    bias = torch.randn(70)
    assert torch.equal(compiled.bind(pack(torch.zeros(70, 30)))(torch.randn(9, 30), bias), bias.expand(9, 70))


def test_what_is_not_a_number_is_passed_on(compiled):
    packed, x = pack(torch.eye(20)), torch.zeros(3, 20)
    x[1, 4], x[2, 5] = float("nan"), float("inf")
    y = compiled.bind(packed)(x, None)
    assert y[1, 4].isnan()
    assert y[2, 5].isinf()
    assert int(y.isfinite().sum()) == y.numel() - 2


@pytest.mark.parametrize("size", SIZES)
def test_the_csr_path_is_the_twin(size):
    packed = pack(pruned(*size))
    product, bias = paths.csr_product(packed), torch.randn(size[0])
    for tokens in (1, 65):
        x = torch.randn(tokens, size[1])
        assert relative_error(product(x, bias), layout.multiply(packed, x, bias)) < 1e-6
        assert relative_error(product(x, None), layout.multiply(packed, x, None)) < 1e-6
        assert product(x, bias).is_contiguous()
