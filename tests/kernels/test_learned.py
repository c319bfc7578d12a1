"""Learned scores, and the masks that they make, by launches over all tensors: what the readable twins do."""

import pytest
import torch

from mgpp.functional import learned as plain
from mgpp.functional import mask as plain_mask
from mgpp.functional.learned import learned_score
from mgpp.kernels import learned, mask, mask_select
from mgpp.kernels.layout import lay_out
from tests.kernels.test_mask import assert_same_bits, masks_for
from tests.kernels.test_select import DTYPES, SHAPES, tensors
from tests.kernels.test_step import close

SIZES = [3, 1, 0, 12_850, 8320]  # SHAPES'


def clones(lists):
    return [[tensor.clone() for tensor in tensors_] for tensors_ in lists]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("pressure", [0.0, 3e-3])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_step_of_the_scores_is_the_twins(dtype, masked, pressure, scaled, device):
    weights, grads, latents = (tensors(SHAPES, dtype, device) for _ in range(3))
    scores, means, squares = (tensors(SHAPES, torch.float32, device) for _ in range(3))
    squares = [square.square() for square in squares]
    keeps = masks_for(weights)
    lists = [weights, grads, latents, scores, means, squares]
    expected = clones(lists)
    numbers = {"t": 3, "lr": 0.01, "pressure": pressure}
    if scaled:
        numbers["grad_scale"] = torch.tensor(128.0, device=device)
    plain.learn_scores_(*expected[1:], **numbers)
    if masked:
        plain.take_mask_off_(expected[0], expected[1], keeps, expected[2])
    roles = (grads, latents, scores, means, squares, keeps if masked else scores, weights)
    learned.learn_scores_(lay_out("learned", roles, {}), masked=masked, **numbers)
    for index in (0, 1, 2):
        assert_same_bits(lists[index], expected[index])
    for index in (3, 4, 5):
        close(lists[index], expected[index])


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_mask_is_put_on_as_the_twin_does_it(dtype, device):
    weights, latents = (tensors(SHAPES, dtype, device) for _ in range(2))
    keeps = masks_for(weights)
    expected = clones([weights, latents])
    plain.put_mask_on_(expected[0], keeps, expected[1])
    mask.mask_(lay_out("latents", (weights, keeps, latents), {}), aside=True)
    assert_same_bits(weights, expected[0])
    assert_same_bits(latents, expected[1])


def scored(mask, latent, score):
    return learned_score(latent, score)


def select_alike(latents, scores, k, scratch) -> None:
    """`k`: one number, or one for each."""
    keeps, expected = ([torch.zeros(s.shape, dtype=torch.bool, device=s.device) for s in scores] for _ in range(2))
    inputs = list(zip(latents, scores, strict=True))
    together = isinstance(k, int)
    if together:
        cut = plain_mask.mask_smallest_(expected, k, score=scored, inputs=inputs)
    else:
        sizes = [score.numel() for score in scores]
        cut = plain_mask.mask_smallest_of_each_(expected, k, sizes=sizes, score=scored, inputs=inputs)
    layout = lay_out("select", (keeps, latents, scores), scratch)
    outcome = mask_select.mask_smallest_(layout, [k] if together else k, together=together, scratch=scratch)
    for actual, wanted in zip(keeps, expected, strict=True):
        assert torch.equal(actual, wanted)
    told = outcome.cut()
    assert (told.value, told.count) == (float(cut), k if together else sum(k))
    zeros = [int((latent.where(keep, 0) == 0).sum()) for latent, keep in zip(latents, expected, strict=True)]
    assert outcome.zeros() == zeros


def some_latents(device):
    """Some are zero themselves."""
    return [
        latent.where(torch.rand(latent.shape, device=device) < 0.9, 0)
        for latent in tensors(SHAPES, torch.float32, device)
    ]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.9999])
def test_the_lowest_of_all_together_leave_the_masks(share, device):
    scratch: dict = {}
    for _ in range(2):
        scores = tensors(SHAPES, torch.float32, device, scale=1.0)
        select_alike(some_latents(device), scores, int(share * sum(SIZES)), scratch)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 1.0])
def test_the_lowest_of_each_leave_its_mask_and_of_a_small_one_perhaps_all(share, device):
    scratch: dict = {}
    counts = [int(share * size) for size in SIZES]
    counts[0], counts[3] = 3, min(counts[3], 12_849)
    for _ in range(2):
        select_alike(some_latents(device), tensors(SHAPES, torch.float32, device, scale=1.0), counts, scratch)


def test_another_count_and_another_scope_are_followed(device):
    scratch: dict = {}
    latents, scores = some_latents(device), tensors(SHAPES, torch.float32, device)
    for k in (5000, 7000, [1, 0, 0, 3000, 9], [2, 1, 0, 12_000, 8000], 20_000):
        select_alike(latents, scores, k, scratch)


@pytest.mark.parametrize("value", [-float("inf"), -0.3, -0.0, 0.02, 7.0])
def test_all_up_to_a_threshold_leave_the_masks_however_many_they_are(value, device):
    latents, scores = some_latents(device), tensors(SHAPES, torch.float32, device)
    scores[3].view(-1)[:40] = 0
    scores[4].view(-1)[:40] = value
    keeps, expected = ([torch.zeros(s.shape, dtype=torch.bool, device=device) for s in scores] for _ in range(2))
    plain_mask.mask_up_to_(expected, value, scores=scores)
    scratch: dict = {}
    layout = lay_out("select", (keeps, latents, scores), scratch)
    for _ in range(2):
        mask_select.mask_smallest_(layout, [9000], together=True, scratch=scratch)  # as at the ramp's end
        outcome = mask_select.mask_up_to_(layout, value, scratch=scratch)
    for actual, wanted, latent, zeros in zip(keeps, expected, latents, outcome.zeros(), strict=True):
        assert torch.equal(actual, wanted)
        assert zeros == int((latent.where(wanted, 0) == 0).sum())
    assert outcome.cut().value == pytest.approx(value)


@pytest.mark.parametrize("k", [0, 1, 4999, 5000, 5001, 14_999])
def test_ties_go_by_position(k, device):
    scores = [torch.full((5000,), -0.5, device=device), torch.full((100, 100), -0.5, device=device)]
    latents = [torch.ones_like(score) for score in scores]
    select_alike(latents, scores, k, {})
    select_alike(latents, scores, [min(k, 4999), k // 2], {})


def test_few_values_of_both_signs_zeros_among_them(device):
    values = torch.tensor([0.0, -0.0, 1e-45, -1e-40, -3.0, 2.0, -2.5e38, 3e38, -1e-3, 0.5], device=device)
    scores = [values, values.flip(0)]
    latents = [torch.tensor([1.0, 1, 1, 0, 1, 1, 1, 1, 0, 1], device=device)] * 2
    for k in range(20):
        select_alike(latents, scores, k, {})


@pytest.mark.parametrize("together", [False, True])
def test_an_event_is_as_many_launches_for_many_matrices_as_for_one(together, device, monkeypatch):
    launches = []
    for name in ("digit_kernel", "resolve_kernel", "mask_kernel", "scan_kernel", "ties_kernel"):
        monkeypatch.setattr(mask_select, name, counted(getattr(mask_select, name), launches))
    for count in (1, 5):
        latents, scores = (tensors([(20, 30)] * count, torch.float32, device) for _ in range(2))
        select_alike(latents, scores, 300 * count if together else [300] * count, {})
        assert len(launches) == 4 * 2 + 3
        launches.clear()


def counted(kernel, launches):
    class Counted:
        def __getitem__(self, grid):
            launches.append(grid)
            return kernel[grid]

    return Counted()
