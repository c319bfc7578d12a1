"""The compiled passes: built when needed, trusted when they are right, done without where there is no compiler."""

import runpy

import pytest
import torch

from mgpp import compiler, kernels
from mgpp.finite import largest_of
from mgpp.functional import prior as plain_prior
from mgpp.functional import select as plain_select
from mgpp.functional.score import curvature, magnitude
from mgpp.kernels import cpu, cpu_step, passes
from mgpp.kernels.passes import Odds, Passes, Strength
from tests.kernels.conftest import compiled
from tests.kernels.test_cpu import assert_selects_alike

SHAPE = {"slab_prob": 1e-7, "spike_var": 1e-9, "slab_var": 0.1}
INF = float("inf")


@pytest.fixture
def fresh():
    """Nothing is known of this machine's compiler, before and after."""
    passes.compiled.cache_clear()
    yield
    passes.compiled.cache_clear()


def test_the_probability_of_the_spike_is_exact_to_a_few_roundings():
    weight = torch.arange(-700, 701) / 64  # squares are exact, so that what is off is the exponential's
    grad = torch.zeros_like(weight)
    compiled().add_prior_gradient_(
        [weight], [grad], Strength(spike=1.0, slab=0.0, limit=INF), Odds(-25.0, 1.0, most=87.0)
    )
    exact = weight.double() * torch.sigmoid(25 - weight.double().square())
    kept = weight.double().square() <= 112  # further out it is held at e^-87
    torch.testing.assert_close(grad.double()[kept], exact[kept], rtol=2e-7, atol=0)


def test_a_pull_past_the_range_of_float32_ends_where_the_twins_does():
    weights, grads, expected = [torch.tensor([3e38, -3e38, INF, -INF, 1e30])], [torch.zeros(5)], [torch.zeros(5)]
    compiled()
    cpu.add_prior_gradient_(weights, grads, scale=1e-3, **SHAPE)
    plain_prior.add_prior_gradient_(weights, expected, scale=1e-3, **SHAPE)
    torch.testing.assert_close(grads, expected, rtol=1e-6, atol=0)


def test_shrinking_leaves_a_zero_and_its_sign():
    weight = torch.tensor([0.0, -0.0])
    compiled().shrink_(
        [weight], [torch.ones(2)], [Strength(spike=1e9, slab=10.0, limit=INF)], Odds(-12.0, 5e8, most=36.0)
    )
    assert weight.signbit().tolist() == [False, True]
    assert not weight.any()


@pytest.mark.parametrize(
    ("odd", "expected"), [([], "0.0"), ([INF], "inf"), ([-INF], "inf"), ([INF, float("nan")], "nan")]
)
def test_one_number_that_is_not_finite_is_found_among_all(odd, expected):
    tensors = [torch.full((0,), INF), torch.full((70_001,), -torch.finfo(torch.float32).max), torch.tensor(1e-45)]
    for place, number in zip((-1, 0), odd, strict=False):
        tensors[1][place] = number
    assert str(compiled().worst(tensors)) == expected


def test_a_library_for_a_lesser_processor_gives_the_same_bits():
    weight, moment = 1e-4 * torch.randn(5000), torch.rand(5000)
    results = []
    for march in ("native", "x86-64"):
        grad, shrunk, zeroed = torch.zeros(5000), weight.clone(), weight.clone()
        made, strength = compiled(march), Strength(spike=1e3, slab=0.1, limit=INF, floor=1e-8)
        made.add_prior_gradient_([weight], [grad], strength, Odds(-12.0, 5e8, most=36.0))
        made.shrink_([shrunk], [moment], [strength], Odds(-12.0, 5e8, most=36.0))
        made.zero_below_([zeroed], [(moment, torch.tensor(0.7))], plain_select.Cut(5e-5, below=0, ties=0))
        results.append(torch.stack([grad, shrunk, zeroed]))
    assert torch.equal(*results)


def test_torchs_operations_never_gather_more_than_a_few_scores(monkeypatch):
    monkeypatch.setattr(cpu, "MOST", 20_000)
    weights = [torch.randn(300, 200) for _ in range(3)]
    assert not cpu._Scores("magnitude", weights, magnitude, [()] * 3).take_by_torch_(80_000, (0.4, 0.8))


def test_autograd_sees_what_is_written(way):
    weight, moment = torch.randn(300, 200, requires_grad=True), torch.rand(300, 200)
    grad = torch.zeros(300, 200)
    with torch.no_grad():
        for write in (
            lambda: cpu.add_prior_gradient_([weight], [grad], scale=1e-4, **SHAPE),
            lambda: cpu_step.shrink_by_prior_([weight], [moment], scales=[1e-9], corrections=[1.0], eps=[0.0], **SHAPE),
            lambda: cpu.zero_under_([weight], 0.1),
        ):
            before = weight._version + grad._version
            write()
            assert weight._version + grad._version > before
    with torch.inference_mode():
        inference = torch.randn(300, 200)
        cpu.zero_under_([inference], 0.1)
        assert not ((inference != 0) & (inference.abs() < 0.1)).any()


def test_zeros_are_counted_where_a_moment_is_no_number():
    compiled()
    weight, moment = torch.randn(300, 200), torch.rand(300, 200)
    weight[0], moment[0] = 0, float("nan")
    how = {"kernel": "curvature", "score": curvature, "inputs": [(moment, torch.tensor(0.5))]}
    assert assert_selects_alike([weight], 30_000, {}, **how)


def test_a_cut_at_zero_is_left_to_the_full_select():
    assert cpu._cut_among(torch.tensor([0.0, 0.0, 1.0]), 1, 0) is None
    assert cpu._cut_among(torch.tensor([0.0, 0.0, 1.0]), 2, 0) == plain_select.Cut(1.0, 2, 0)


class Elsewhere(torch.Tensor):
    """Float32 on a CPU by what it says of itself, with nothing at its address."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=torch.float32, device="cpu")

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*(arg.inner if isinstance(arg, cls) else arg for arg in args), **(kwargs or {}))


def test_numbers_that_are_kept_elsewhere_are_left_to_torch():
    plain = torch.ones(3)
    assert cpu.supports([plain], [torch.nn.Parameter(plain)])
    assert not cpu.supports([plain, Elsewhere(plain)])
    assert not cpu.supports([plain.to_sparse()])
    assert largest_of([-2 * plain, Elsewhere(plain)]) == 2


def test_without_a_compiler_torchs_operations_serve(fresh, monkeypatch):
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    weights, grads, squares = [1e-4 * torch.randn(300, 200)], [torch.zeros(300, 200)], [torch.rand(300, 200)]
    kernels.add_prior_gradient_(weights, grads, scale=1e-4, scratch={}, **SHAPE)
    expected = [torch.zeros(300, 200)]
    plain_prior.add_prior_gradient_(weights, expected, scale=1e-4, **SHAPE)
    torch.testing.assert_close(grads, expected)
    numbers = {"scales": [1e-9], "corrections": [1.0], "eps": [0.0]}
    kernels.shrink_by_prior_(weights, squares, scratch={}, **numbers, **SHAPE)
    scratch: dict = {}
    for k in (1000, 1001):
        twin = [weights[0].clone()]
        kernels.zero_smallest_(weights, k, scratch=scratch)
        plain_select.zero_smallest_(twin, k)
        assert torch.equal(weights[0], twin[0])
    assert passes.compiled() is None


def test_who_wants_none_of_it_says_so(fresh, monkeypatch):
    monkeypatch.setenv("MGPP_COMPILE", "0")
    assert passes.compiled() is None


@pytest.mark.parametrize("method", ["add_prior_gradient_", "shrink_", "find_cut", "zero_below_"])
def test_a_library_that_does_nothing_is_not_trusted(method, monkeypatch):
    compiled()
    monkeypatch.setattr(Passes, method, lambda *_, **__: None)
    with pytest.raises(compiler.NoKernel, match="wrong numbers"):
        passes.build("native")


def test_a_library_without_threads_is_not_taken(monkeypatch):
    compiled()
    monkeypatch.setattr(compiler, "_attempts", lambda march: [([f"-march={march}"], [])])
    with pytest.raises(compiler.NoKernel, match="no OpenMP"):
        passes.build("native")


def test_nothing_is_compiled_for_what_it_does_not_take(monkeypatch):
    def never():
        raise AssertionError

    monkeypatch.setattr(passes, "compiled", never)
    for dtype in (torch.bfloat16, torch.float64):
        weights, grads = [torch.randn(50, 40).to(dtype)], [torch.zeros(50, 40, dtype=dtype)]
        kernels.add_prior_gradient_(weights, grads, scale=1e-4, scratch={}, **SHAPE)
        kernels.zero_smallest_(weights, 100, scratch={})


def test_importing_compiles_nothing(monkeypatch):
    def never(*_, **__):
        raise AssertionError

    monkeypatch.setattr(compiler, "load", never)
    for module in (passes, cpu, cpu_step):
        runpy.run_path(module.__file__)
