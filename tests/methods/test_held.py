"""An event needs no mask to leave what is held alone: a zero goes before all that is not one."""

import pytest
import torch
from torch import Tensor

import mgpp
from mgpp import kernels
from mgpp.functional import select as plain
from mgpp.functional.score import curvature, magnitude
from mgpp.functional.structure import parse_structure
from mgpp.kernels import structure as structured
from mgpp.methods import from_dict
from tests.test_contract import HELD, STEPS, method_of
from tests.toy import NUM_WEIGHTS, Toy, batches, rows

SHAPES = [(24, 40), (8, 16), (120, 80)]


def held_first(score):
    """The score with the mask as its second argument: what is held at zero goes before all else, by its mark."""

    def marked(weight: Tensor, kept: Tensor, *more: Tensor) -> Tensor:
        return score(weight, *more).where(kept, float("-inf"))

    return marked


def held_weights(device) -> tuple[list[Tensor], list[Tensor], list[tuple[Tensor, Tensor]]]:
    """Half is held; of the others some are zero by chance, some equal each other, and some have no curvature."""
    torch.manual_seed(0)
    weights = [(torch.randn(shape) * 0.05).mul(200).round().div(200) for shape in SHAPES]
    keeps = [torch.rand(shape) < 0.5 for shape in SHAPES]
    moments = [torch.rand(shape).mul(4).round().square() * 1e-6 for shape in SHAPES]
    weights = [weight.where(keep, 0).to(device) for weight, keep in zip(weights, keeps, strict=True)]
    one = torch.ones(())
    return weights, [keep.to(device) for keep in keeps], [(moment.to(device), one) for moment in moments]


CASES = {"magnitude": magnitude, "curvature": curvature}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("word", [None, "2x1", "4x4", "3x5", "2:4"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.7, 0.95])
def test_selecting_without_the_mask_is_selecting_with_it(name, word, share, device):
    weights, keeps, moments = held_weights(device)
    score = CASES[name]
    beside = moments if name == "curvature" else [()] * len(weights)
    marked = {"score": held_first(score), "inputs": [(k, *b) for k, b in zip(keeps, beside, strict=True)]}
    plainly = {"score": score, "inputs": beside, "kernel": name, "scratch": {}}
    expected = [weight.clone() for weight in weights]
    if word is None:
        k = max(int(share * sum(w.numel() for w in weights)), sum(int((~keep).sum()) for keep in keeps))
        plain.zero_smallest_(expected, k, **marked)
        kernels.zero_smallest_(weights, k, **plainly)
    else:
        pattern = parse_structure(word)
        k = pattern.most(SHAPES, share)
        structured.zero_smallest_(expected, k, structure=pattern, **marked, kernel=None, scratch={})
        structured.zero_smallest_(weights, k, structure=pattern, **plainly)
    for actual, wanted in zip(weights, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("case", sorted(HELD))
@pytest.mark.parametrize("end", [14, 15], ids=["between events", "at an event"])
def test_once_the_target_is_held_nothing_is_selected_any_more(case, end, monkeypatch):
    model = Toy()
    pruner = mgpp.Pruner(
        model,
        method_of(case, end=end),
        total_steps=STEPS,
        train_size=64,
        gradients=mgpp.GradientSampler(model, rows(), seed=3),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
    pruner.attach(optimizer)
    data = batches()
    for t in range(1, STEPS + 1):
        if t == 16:
            monkeypatch.setattr(type(pruner.recipe.select), "__call__", lambda *_: pytest.fail("it selected"))
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    assert pruner.sparsity == 0.75
    pruner.finish()


def test_a_run_that_was_cut_short_reaches_its_target_and_holds_it():
    model = Toy()
    pruner = mgpp.Pruner(model, from_dict({"method": "gmp", "hold": True, "sparsity": 0.75}), total_steps=STEPS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    pruner.attach(optimizer)
    data = batches()
    for _ in range(10):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    pruner.finish()
    assert sum(pruner.zeros.values()) == int(0.75 * NUM_WEIGHTS)
    assert all(
        torch.equal(keep, weight != 0)
        for keep, weight in zip(pruner.memory.get("keep"), pruner.targets.values(), strict=True)
    )
