"""Scores taken in pieces are the scores of the formulas, on whole tensors."""

import math

import numpy as np
import pytest
import torch

from mgpp.functional import chunks as walking
from mgpp.functional.score import curvature, observe_sensitivity_, sensitivity, uncertain_sensitivity

SHAPES = [(0,), (), (1,), (3, 5), (257, 311)]
EVERY, BETA1, BETA2 = 4, 0.85, 0.95


def draw(shape, dtype, device, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_moments_follow_their_formulas_step_by_step(shape, dtype, device):
    wide = torch.promote_types(dtype, torch.float32)
    weight = draw(shape, dtype, device, seed=0)
    window, smoothed, uncertainty = (torch.zeros(shape, dtype=wide, device=device) for _ in range(3))
    mean, slow, spread = (torch.zeros(shape, dtype=torch.float64, device=device) for _ in range(3))
    for t in range(1, 11):
        grad = draw(shape, dtype, device, seed=t)
        observe_sensitivity_(
            [weight], [grad], [window], [smoothed], [uncertainty], t=t, every=EVERY, beta1=BETA1, beta2=BETA2
        )
        now = (weight.double() * grad.double()).abs()
        if t % EVERY:
            mean = (mean * (t % EVERY) + now) / (t % EVERY + 1)
        else:
            slow = BETA1 * slow + (1 - BETA1) * mean
            spread = BETA2 * spread + (1 - BETA2) * (mean - slow).abs()
            mean = now
        for actual, expected in ((window, mean), (smoothed, slow), (uncertainty, spread)):
            torch.testing.assert_close(actual, expected.to(wide))


def test_leaving_the_uncertainty_out_changes_nothing_else(device):
    weight, grad = draw((70, 90), torch.float32, device, 0), draw((70, 90), torch.float32, device, 1)
    with_it = [[torch.ones_like(weight)] for _ in range(3)]
    without = [[torch.ones_like(weight)] for _ in range(2)]
    for t in range(1, 6):
        observe_sensitivity_([weight], [grad], *with_it, t=t, every=3, beta1=BETA1, beta2=BETA2)
        observe_sensitivity_([weight], [grad], *without, t=t, every=3, beta1=BETA1)
    torch.testing.assert_close(without, with_it[:2], rtol=0, atol=0)


def test_the_moments_of_a_transposed_weight_are_its_own(device):
    stored, grad = draw((300, 500), torch.float32, device, 0), draw((500, 300), torch.float32, device, 1)
    window, smoothed = torch.zeros(500, 300, device=device), torch.zeros(500, 300, device=device)
    observe_sensitivity_([stored.t()], [grad], [window], [smoothed], t=1, every=5, beta1=BETA1)
    torch.testing.assert_close(window, sensitivity(stored.t(), grad) / 2)


def test_uncertain_sensitivity_is_the_product():
    assert uncertain_sensitivity(torch.tensor([2.0]), torch.tensor([3.0])) == 6.0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_curvature_is_size_times_the_root_of_the_corrected_second_moment(dtype, device):
    weight, moment = draw((33, 65), dtype, device, 0), draw((33, 65), dtype, device, 1).square()
    wide = torch.promote_types(dtype, torch.float32)
    correction = torch.tensor(0.25, dtype=wide, device=device)
    expected = weight.double().abs() * (moment.double() / 0.25).sqrt()
    score = curvature(weight, moment, correction)
    torch.testing.assert_close(score, expected.to(wide))
    assert score.dtype == wide


def test_a_number_goes_with_every_piece(monkeypatch):
    monkeypatch.setattr(walking, "CHUNK", 8)
    tensor, number = torch.arange(30.0).view(5, 6), torch.tensor(3.0)
    for turned in (tensor, tensor.t()):
        pieces = list(walking.chunks(turned, number, turned))
        assert len(pieces) > 1
        assert all(middle is number for _, middle, _ in pieces)
        torch.testing.assert_close(torch.cat([first.flatten() for first, _, _ in pieces]), turned.flatten())


@pytest.mark.parametrize("shape", [(2, 5, 6), (1, 40), (40, 1), (3, 1, 9), (30,)])
@pytest.mark.parametrize("times", [1, 2])
def test_no_piece_is_larger_than_a_chunk_and_pieces_go_by_position(shape, times, monkeypatch):
    monkeypatch.setattr(walking, "CHUNK", 8)
    whole = torch.arange(1.0, 1 + math.prod(shape)).view(shape)
    for tensor in (whole, whole.movedim(0, -1), torch.stack([whole, whole], -1)[..., 0]):
        pieces = [piece for (piece,) in walking.chunks(tensor, times=times)]
        assert max(piece.numel() for piece in pieces) <= 8 * times
        assert torch.equal(torch.cat([piece.flatten() for piece in pieces]), tensor.flatten())
        for piece in pieces:
            piece.zero_()  # views: the tensor itself is written
        assert not tensor.any()
        tensor.fill_(1.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_only_a_zero_scores_zero_even_where_there_is_no_curvature(dtype, device):
    weight = torch.tensor([0.0, -0.0, 1e-4, -3.0, 1e-30, float("nan")], dtype=dtype, device=device)
    one = torch.ones((), device=device)
    for moment in (torch.zeros_like(weight), torch.full_like(weight, 1e-30), torch.zeros((), device=device)):
        score = curvature(weight, moment, one)
        assert torch.equal(score == 0, weight == 0)
        assert torch.equal(score > 0, (weight != 0) & ~weight.isnan())
        assert score[5].isnan()


def test_the_curvatures_root_is_rounded_right_on_every_machine(device):
    moment = (1e-4 + torch.rand(10_000)) ** 8  # none is zero: of that the score is not the root
    score = curvature(torch.ones(10_000, device=device), moment.to(device), torch.ones((), device=device))
    assert torch.equal(score.cpu(), torch.from_numpy(np.sqrt(moment.numpy())))
