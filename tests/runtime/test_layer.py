"""A SparseLinear behaves as the layer it replaces, and says clearly what it does not do."""

import copy
import pickle

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from mgpp.runtime import SparseLinear
from tests.runtime.matrices import pruned, relative_error


def linear(rows=70, columns=45, *, bias=True) -> nn.Linear:
    layer = nn.Linear(columns, rows, bias=bias).requires_grad_(False)
    layer.weight.copy_(pruned(rows, columns))
    return layer


def conv1d(rows=70, columns=45) -> Conv1D:
    layer = Conv1D(rows, columns).requires_grad_(False)
    layer.weight.copy_(pruned(rows, columns).T)
    return layer


@pytest.fixture(params=["auto", "csr"])
def path(request):
    return request.param


@pytest.fixture(params=[linear, lambda: linear(bias=False), conv1d], ids=["linear", "no bias", "conv1d"])
def pair(request, path):
    layer = request.param()
    return layer, SparseLinear.replacing(layer, path=path)


@pytest.mark.parametrize("shape", [(45,), (1, 45), (65, 45), (2, 3, 45), (1, 129, 45)])
def test_it_computes_what_the_layer_computes(pair, shape):
    layer, sparse = pair
    x = torch.randn(shape)
    expected, actual = layer(x), sparse(x)
    assert actual.shape == expected.shape
    assert relative_error(actual, expected) < 1e-6


@pytest.mark.parametrize("shape", [(0, 45), (2, 0, 45)])
def test_no_tokens_give_no_outputs(pair, shape):
    sparse = pair[1]
    assert sparse(torch.empty(shape)).shape == (*shape[:-1], 70)


def test_inputs_may_lie_in_memory_as_they_like(pair):
    layer, sparse = pair
    for x in (torch.randn(45, 9).T, torch.randn(9, 90)[:, ::2], torch.randn(3, 5, 45).transpose(0, 1)):
        assert relative_error(sparse(x), layer(x.contiguous())) < 1e-6
    flipped = torch.randn(4, 45, dtype=torch.complex64).conj().imag
    assert flipped.is_neg()
    assert relative_error(sparse(flipped), layer(flipped)) < 1e-6


def test_inference_mode_and_no_grad_serve(pair):
    layer, sparse = pair
    x = torch.randn(3, 45)
    with torch.inference_mode():
        assert relative_error(sparse(x + 1), layer(x + 1)) < 1e-6
    x.requires_grad_()
    with torch.no_grad():
        assert not sparse(x).requires_grad


def test_a_gradient_is_refused(pair):
    with pytest.raises(RuntimeError, match=r"no gradient goes through .* torch.inference_mode"):
        pair[1](torch.randn(3, 45, requires_grad=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64])
def test_another_dtype_is_refused(pair, dtype):
    with pytest.raises(ValueError, match=f"the input is {dtype} on cpu: .* torch.float32"):
        pair[1](torch.ones(3, 45, dtype=dtype))


def test_a_wrong_size_is_refused(pair):
    with pytest.raises(ValueError, match=r"shape is \(3, 44\): its last size must be 45"):
        pair[1](torch.randn(3, 44))
    with pytest.raises(ValueError, match="its last size must be 45"):
        pair[1](torch.tensor(1.0))


def test_its_state_dict_is_the_plain_layers(pair):
    layer, sparse = pair
    expected, actual = layer.state_dict(), sparse.state_dict()
    assert list(actual) == list(expected)
    for name in expected:
        assert torch.equal(actual[name], expected[name])
        assert actual[name].is_contiguous()


def test_a_plain_layers_state_can_be_loaded(pair):
    layer, sparse = pair
    x = torch.randn(3, 45)
    sparse(x)
    other = copy.deepcopy(layer)
    other.weight.mul_(-2)
    sparse.load_state_dict(other.state_dict())
    assert torch.equal(sparse.weight, other.weight)
    assert relative_error(sparse(x), other(x)) < 1e-6


def test_a_state_that_does_not_fit_is_refused():
    sparse = SparseLinear.replacing(linear())
    with pytest.raises(RuntimeError, match=r"weight is \(3, 45\) for \(70, 45\)"):
        sparse.load_state_dict({"weight": torch.ones(3, 45), "bias": torch.ones(70)})
    with pytest.raises(RuntimeError, match="Missing key"):
        sparse.load_state_dict({"bias": torch.ones(70)})


@pytest.mark.parametrize("again", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_copies_and_pickles_compute_the_same(pair, again):
    sparse = pair[1]
    x = torch.randn(3, 45)
    expected = sparse(x)
    twin = again(sparse)
    assert torch.equal(twin(x), expected)
    assert twin.packed.values.data_ptr() != sparse.packed.values.data_ptr()


def test_its_weight_can_be_looked_at(pair):
    layer, sparse = pair
    assert torch.equal(sparse.weight, layer.weight)
    assert sparse.weight is sparse.weight  # T5 looks at every step


def test_the_plain_layer_comes_back(pair):
    layer, sparse = pair
    plain = sparse.plain()
    assert type(plain) is type(layer)
    assert torch.equal(plain.weight, layer.weight)
    x = torch.randn(3, 45)
    assert torch.equal(plain(x), layer(x))


def test_it_stays_float32_on_the_cpu(pair):
    sparse = pair[1]
    sparse.to("cpu").float()
    for move in (lambda: sparse.to(torch.bfloat16), sparse.double, lambda: sparse.to("meta")):
        with pytest.raises(ValueError, match=r"stays torch.float32 on the cpu.*densify"):
            move()


def test_a_compiled_model_goes_around_it(pair):
    layer, sparse = pair
    model = torch.compile(nn.Sequential(sparse, nn.GELU()), backend="eager")
    x = torch.randn(3, 45)
    assert relative_error(model(x), nn.functional.gelu(layer(x))) < 1e-6


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_trace_is_refused(pair):
    with pytest.raises(RuntimeError, match="cannot be traced or exported"):
        torch.jit.trace(pair[1], torch.randn(3, 45))


def test_it_says_what_it_is():
    sparse = SparseLinear.replacing(linear(), path="csr")
    assert repr(sparse).startswith("SparseLinear(45, 70, density=0.1")
    assert "path=csr" in repr(sparse)
