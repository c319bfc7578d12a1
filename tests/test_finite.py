"""Every number that is not finite is noticed, whatever kind of tensor holds it, and no other is taken for one."""

import math

import pytest
import torch
from torch import nn

import mgpp
from mgpp.finite import first_broken, largest_of
from mgpp.kernels import passes

ODD = [math.nan, math.inf, -math.inf]


@pytest.fixture(autouse=True, params=["compiled", "torch"])
def way(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(passes, "compiled", lambda: None)


def sparse(*numbers: float) -> torch.Tensor:
    rows = torch.ones(1, len(numbers), dtype=torch.int64)
    return torch.sparse_coo_tensor(rows, torch.tensor(numbers), (4,), check_invariants=True)


KINDS = {
    "float64": lambda number: torch.tensor([1.0, number], dtype=torch.float64),
    "sparse": lambda number: sparse(number),
    "real part": lambda number: torch.complex(torch.tensor([1.0, number]), torch.ones(2)),
    "imaginary part": lambda number: torch.complex(torch.ones(2), torch.tensor([1.0, number])),
    "conjugate": lambda number: torch.complex(torch.ones(2), torch.tensor([1.0, number])).conj(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_of_any_kind_is_looked_at(kind):
    large = 1e300 if kind == "float64" else 3e38
    assert math.isfinite(largest_of([torch.ones(3), KINDS[kind](large)]))
    for odd in ODD:
        assert not math.isfinite(largest_of([torch.ones(3), KINDS[kind](odd)]))


def test_what_a_row_has_twice_may_overflow_as_a_sum():
    assert not math.isfinite(largest_of([sparse(3e38, 3e38)]))
    assert math.isfinite(largest_of([sparse(3e38, -3e38), sparse()]))


LARGE = {torch.complex64: 3e38, torch.float64: 1e300, torch.complex128: 1e300}


@pytest.mark.parametrize("dtype", LARGE)
def test_a_weight_of_any_kind_may_be_broken(dtype):
    model = nn.Linear(3, 2, dtype=dtype)
    model.bias.data[1] = LARGE[dtype]
    assert first_broken(model) is None
    model.bias.data[1] = math.nan
    assert first_broken(model) == "bias"


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_weights_of_eight_bits_are_looked_at_too(dtype):
    model = nn.Linear(3, 2)
    model.weight = nn.Parameter(torch.ones(2, 3).to(dtype), requires_grad=False)
    assert first_broken(model) is None
    model.weight.data[1, 2] = math.nan
    assert first_broken(model) == "weight"


class Waves(nn.Module):
    """An embedding with sparse gradients, and complex numbers, beside what is pruned."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8, sparse=True)
        self.waves = nn.Parameter(torch.randn(8, dtype=torch.complex64))
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.fft.ifft(torch.fft.fft(self.embedding(x).mean(1)) * self.waves).real)


def test_sparse_and_complex_gradients_may_lie_beside_the_pruned_weights():
    model = Waves()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    method = mgpp.MGPP(sparsity=0.5, start=1, end=3, every=1)
    pruner = mgpp.Pruner(model, method, total_steps=4, train_size=100, include=["head.weight"])
    pruner.attach(optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randint(20, (4, 3))).square().mean().backward()
        optimizer.step()
    assert (pruner.t, pruner.sparsity) == (3, 0.5)
    for parameter in (model.embedding.weight, model.waves):
        before, parameter.grad = parameter.grad, parameter.grad * math.nan
        with pytest.raises(FloatingPointError, match="the gradient of step 4 is nan"):
            optimizer.step()
        parameter.grad = before
