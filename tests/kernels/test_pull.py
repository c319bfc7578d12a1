"""The decoupled prior's one launch after the optimizer's step does what its readable twin does."""

import math

import pytest
import torch

import mgpp
from mgpp import kernels
from mgpp.functional import prior as plain
from mgpp.kernels import prior as fast
from mgpp.kernels.layout import lay_out
from mgpp.methods import prior, recipe
from tests.kernels.test_select import DTYPES, SHAPES, tensors
from tests.toy import Toy, weights_of

# Weak enough that weights are shrunk by shares of all sizes, not only wholly or not at all.
PRIOR = {"slab_prob": 0.01, "spike_var": 1e-4, "slab_var": 0.05}
# What is left of a weight is a difference from 1: where nearly all of it goes, an ulp of the share is much of the rest.
CLOSE = {torch.float32: {"rtol": 1e-5, "atol": 1e-7}}


def moments(dtype, device):
    return [(v.abs() * 1e-3).to(dtype) for v in tensors(SHAPES, torch.float32, device)]


def numbers(device, *, each: bool) -> dict[str, list]:
    """Of each tensor; the corrections lie on the device, as those of torch's fused AdamW do."""
    n = len(SHAPES)
    if not each:
        return {"scales": [3e-7] * n, "corrections": [0.3] * n, "eps": [1e-8] * n}
    return {
        "scales": [1e-7 * (i + 1) for i in range(n)],
        "corrections": [torch.tensor(0.1 * (i + 1), device=device) for i in range(n)],
        "eps": [10.0 ** -(8 - i) for i in range(n)],
    }


@pytest.fixture
def launched(monkeypatch):
    """Launches wherever the tensors allow it, on a CPU in the interpreter; the layouts that were found, by turn."""
    found: list = []

    def always(key, lists, scratch, *, fresh=()):
        found.append(lay_out(key, lists, scratch, fresh=fresh) if lists[0] else None)
        return found[-1]

    monkeypatch.setattr(kernels, "_laid_out", always)
    return found


def assert_shrinks_alike(weights, squares, **more) -> None:
    expected = [weight.clone() for weight in weights]
    plain.shrink_by_prior_(expected, squares, **more)
    kernels.shrink_by_prior_(weights, squares, scratch={}, **more)
    for actual, wanted in zip(weights, expected, strict=True):
        torch.testing.assert_close(actual, wanted, equal_nan=True, **CLOSE.get(actual.dtype, {}))


@pytest.mark.parametrize("most", [math.inf, 1e4])
@pytest.mark.parametrize("each", [False, True], ids=["one for all", "one for each"])
@pytest.mark.parametrize("square_dtype", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_odd_shapes_of_every_dtype(dtype, square_dtype, each, most, device, launched):
    weights = tensors(SHAPES, dtype, device)
    before = [weight.clone() for weight in weights]
    assert_shrinks_alike(weights, moments(square_dtype, device), **numbers(device, each=each), most=most, **PRIOR)
    assert launched[0] is not None
    assert not any(torch.equal(a, b) for a, b in zip(weights, before, strict=True) if a.numel() > 1)


def test_it_is_one_launch_over_all_tensors(device, monkeypatch, launched):
    grids = []

    class Watched:
        def __getitem__(self, grid):
            grids.append(grid)
            return kernel[grid]

    kernel = fast._shrink_by_prior_kernel
    monkeypatch.setattr(fast, "_shrink_by_prior_kernel", Watched())
    weights = tensors(SHAPES, torch.float32, device)
    assert_shrinks_alike(weights, moments(torch.float32, device), **numbers(device, each=True), **PRIOR)
    assert len(grids) == 1


def test_tensors_of_several_dtypes_have_their_own_numbers(device, launched):
    weights = [w.to(DTYPES[i % 3]) for i, w in enumerate(tensors(SHAPES, torch.float32, device))]
    assert_shrinks_alike(weights, moments(torch.float32, device), **numbers(device, each=True), **PRIOR)
    assert len(launched[0].groups) == 3


@pytest.mark.parametrize("why", ["transposed", "unaligned", "double"])
def test_tensors_that_no_launch_takes_are_shrunk_by_the_twin(why, device, launched):
    weights, squares = tensors(SHAPES, torch.float32, device), moments(torch.float32, device)
    if why == "transposed":
        weights[3], squares[3] = weights[3].t(), squares[3].t()
    elif why == "unaligned":
        weights[3], squares[3] = weights[3].view(-1)[1:], squares[3].view(-1)[1:]
    else:
        weights[3], squares[3] = weights[3].double(), squares[3].double()
    assert_shrinks_alike(weights, squares, **numbers(device, each=True), **PRIOR)
    assert launched == [None]


def test_a_moment_that_is_one_number_for_all_is_not_read_as_one_for_each(device, launched):
    weights, squares = tensors(SHAPES, torch.float32, device), moments(torch.float32, device)
    squares[3] = torch.zeros((), device=device)
    assert_shrinks_alike(weights, squares, **numbers(device, each=False), **PRIOR)
    assert launched == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.0, 1e-3, 1e20])
def test_only_pruning_makes_zeros_and_a_nan_stays_one(dtype, scale, device, launched):
    values = [0.0, -0.0, 2e-38, -2e-38, 7e-8, -7e-8, 1e-5, -1e-5, 0.1, -3.0, math.nan, 0.1]
    weight = torch.tensor(values).to(device, dtype)
    square = torch.zeros(len(values), device=device)  # with ε = 0: no gradient yet, and 0/0 where nothing pulls
    square[-1] = math.nan
    before = weight.clone()
    options = {"scales": [scale], "corrections": [0.3], "eps": [0.0]}
    assert_shrinks_alike([weight], [square], **options, **PRIOR)
    assert torch.equal(weight == 0, before == 0)
    assert weight.isnan().tolist()[-2:] == [True, True]
    if scale == 0.0:
        assert torch.equal(weight[:-2], before[:-2])


def run(device, kind, *, hooks: bool = True) -> tuple[dict[str, torch.Tensor], mgpp.Pruner, list]:
    """Weights of a toy whose gradients do not depend on them, so that a difference in the last bit stays one."""
    model = Toy().to(device)
    rest = [*model.blocks[1].parameters(), *model.head.parameters()]
    groups = [{"params": [*model.blocks[0].parameters()], "lr": 3e-3, "eps": 1e-4}, {"params": rest}]
    optimizer = kind(groups, lr=1e-2, weight_decay=0)
    told: list[dict] = []
    method = mgpp.MGPP(sparsity=0.5, start=4, end=6, every=1, **PRIOR, decoupled=True, strength=0.2)
    pruner = mgpp.Pruner(model, method, total_steps=12, train_size=64, on_record=told.append)
    pruner.attach(optimizer, hooks=hooks)
    generator = torch.Generator().manual_seed(0)
    for _ in range(12):
        for param in model.parameters():
            param.grad = (torch.randn(param.shape, generator=generator) * 1e-2).to(device)
        if not hooks:
            pruner.before_step()
        optimizer.step()
        if not hooks:
            pruner.after_step()
    pruner.settle()
    return weights_of(model), pruner, told


def test_a_run_with_a_rate_for_each_group_is_a_run_by_the_twins(device, monkeypatch, launched):
    actual, pruner, told = run(device, torch.optim.AdamW)
    assert any(layout is not None for layout in launched)
    monkeypatch.setattr(kernels, "_laid_out", lambda *args, **more: None)
    expected, _, wanted = run(device, torch.optim.AdamW)
    for name, value in expected.items():
        assert torch.equal(actual[name] == 0, value == 0), name
        torch.testing.assert_close(actual[name], value, rtol=1e-3, atol=1e-6)
    assert [record["zeros"] for record in told] == [record["zeros"] for record in wanted]
    assert sum(pruner.zeros.values()) == pruner.num_weights // 2


@pytest.mark.parametrize("hooks", [True, False])
def test_outside_of_the_optimizer_the_pull_comes_before_the_count(hooks, device, monkeypatch, launched):
    """By hand even mgpp.AdamW leaves the pull to the pruner, and then may not count what the pull will change."""
    done: list[str] = []
    pull_, select_ = prior.shrink_by_prior_, recipe.zero_smallest_

    def pulled(*args, **more):
        done.append("pull")
        pull_(*args, **more)

    def selected(*args, count=None, **more):
        done.append("select" if count is None else "select what was counted")
        return select_(*args, count=count, **more)

    monkeypatch.setattr(prior, "shrink_by_prior_", pulled)
    monkeypatch.setattr(recipe, "zero_smallest_", selected)
    _, pruner, told = run(device, torch.optim.AdamW if hooks else mgpp.AdamW, hooks=hooks)
    assert done == ["pull"] * 3 + ["pull", "select"] * 9
    zeros = [sum(record["zeros"].values()) for record in told]
    assert zeros == [int(pruner.schedule.sparsity_at(t) * pruner.num_weights) for t in range(4, 13)]


def test_inside_the_optimizers_pass_pull_and_count_are_one(device, monkeypatch, launched):
    counted: list[bool] = []
    select_ = recipe.zero_smallest_

    def selected(*args, count=None, **more):
        counted.append(count is not None)
        return select_(*args, count=count, **more)

    monkeypatch.setattr(prior, "shrink_by_prior_", None)
    monkeypatch.setattr(recipe, "zero_smallest_", selected)
    _, pruner, _ = run(device, mgpp.AdamW)
    assert counted[-6:] == [True] * 6
    assert sum(pruner.zeros.values()) == pruner.num_weights // 2


@pytest.mark.parametrize("decoupled", [False, True], ids=["coupled", "decoupled"])
def test_what_a_sensitivity_sees_of_the_prior_does_not_depend_on_who_steps(decoupled, device, launched):
    """Coupled, it is part of the gradient that is judged; the launch that steps with it does not leave it there."""
    windows = []
    for kind in (torch.optim.AdamW, mgpp.AdamW):
        model = Toy().to(device)
        optimizer = kind(model.parameters(), lr=1e-4, weight_decay=0)
        method = mgpp.ITP(sparsity=0.5, start=0, end=6, prior=mgpp.Prior(**PRIOR, decoupled=decoupled))
        pruner = mgpp.Pruner(model, method, total_steps=12, train_size=64)
        pruner.attach(optimizer)
        for param in model.parameters():
            param.grad = torch.full_like(param, 1e-3)
        optimizer.step()
        windows.append(pruner.memory.get("window"))
    torch.testing.assert_close(*windows)
    judged_alone = torch.cat([(weight * 1e-3).abs().flatten() / 2 for weight in pruner.targets.values()])
    assert torch.allclose(torch.cat([window.flatten() for window in windows[1]]), judged_alone) == decoupled
