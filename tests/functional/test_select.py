"""Selection is exact: the right weights, the right number, the right one of a tie."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpp.functional import chunks as walking
from mgpp.functional.select import find_cut, order_key, zero_smallest_
from tests.ranks import on_ranks

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def zeroed_by_sorting(weights: list[torch.Tensor], k: int) -> list[torch.Tensor]:
    """The obvious twin: a stable sort of everything."""
    dtype = torch.float64
    flat = torch.cat([weight.flatten().to(dtype) for weight in weights])
    flat[flat.abs().argsort(stable=True)[:k]] = 0
    parts = flat.split([weight.numel() for weight in weights])
    return [part.view(weight.shape).to(weight.dtype) for part, weight in zip(parts, weights, strict=True)]


def assert_same(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0.0, 1e-4, 0.3, 0.9, 0.999])
def test_the_k_smallest_over_all_tensors_become_zero(dtype, share, device):
    shapes = [(0,), (), (1,), (7, 13), (300, 257), (3, 4, 5)]
    weights = [torch.randn(shape, device=device).to(dtype) for shape in shapes]
    k = int(share * sum(weight.numel() for weight in weights))
    expected = zeroed_by_sorting(weights, k)
    cut = zero_smallest_(weights, k)
    assert_same(weights, expected)
    assert cut.count == k


def test_half_precisions_beside_each_other_compare_by_value(device):
    weights = [torch.randn(50, 40, device=device).to(dtype) for dtype in DTYPES]
    expected = zeroed_by_sorting(weights, 5000)
    zero_smallest_(weights, 5000)
    assert_same(weights, expected)


@pytest.mark.parametrize("k", [0, 1, 4096, 65_536, 65_537, 131_071, 199_999])
def test_ties_never_prune_more_than_asked_and_go_by_position(k, device):
    weights = [torch.full((100_000,), -0.5, device=device), torch.full((1000, 100), 0.5, device=device)]
    zero_smallest_(weights, k)
    flat = torch.cat([weight.flatten() for weight in weights])
    assert (flat[:k] == 0).all()
    assert (flat[k:] != 0).all()


def test_weights_that_are_zero_already_are_counted_among_the_smallest(device):
    weight = torch.randn(1000, device=device)
    weight[::2] = 0
    weight[1::4] = -0.0
    expected = zeroed_by_sorting([weight], 800)
    zero_smallest_([weight], 800)
    assert int((weight == 0).sum()) == 800
    torch.testing.assert_close(weight, expected[0], rtol=0, atol=0)


def test_a_transposed_weight_is_pruned_where_it_lies(device):
    stored = torch.randn(400, 300, device=device)
    expected = zeroed_by_sorting([stored.t()], 90_000)[0]
    zero_smallest_([stored.t()], 90_000)
    torch.testing.assert_close(stored.t(), expected, rtol=0, atol=0)


@given(
    values=st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=60),
    share=st.floats(0, 1, exclude_max=True),
)
def test_any_float32_scores_give_the_cut_that_sorting_gives(values, share):
    k = int(share * len(values))
    scores = torch.tensor(values, dtype=torch.float32)
    cut = find_cut(lambda: [scores], k, dtype=torch.float32)
    assert cut.value == scores.sort().values[k].item()
    assert cut.below == int((scores < cut.value).sum())
    assert cut.below + cut.ties == k


@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_order_like_the_floats_with_one_zero_and_nan_last(dtype):
    values = [-float("inf"), -2.0, -1e-7, 0.0, 6e-8, 0.5, 1.0, 3.0, float("inf"), float("nan")]
    keys = order_key(torch.tensor(values, dtype=dtype)).tolist()
    assert keys == sorted(set(keys))
    assert order_key(torch.tensor([-0.0], dtype=dtype)).item() == order_key(torch.tensor([0.0], dtype=dtype)).item()


def test_histograms_of_shards_add_up_to_the_cut_of_the_whole():
    scores = torch.randn(10_000).abs()
    shards = scores.chunk(3)
    cuts = on_ranks(3, lambda ranks: find_cut(lambda: [shards[ranks.rank]], 9000, dtype=torch.float32, ranks=ranks))
    assert cuts == [find_cut(lambda: [scores], 9000, dtype=torch.float32)] * len(shards)


def pieces_of(weights: list[torch.Tensor], size: int, seed: int) -> list[list[torch.Tensor]]:
    """Each rank's part of each tensor: any lengths, some empty, in order."""
    generator = torch.Generator().manual_seed(seed)
    parts: list[list[torch.Tensor]] = [[] for _ in range(size)]
    for weight in weights:
        ends = torch.randint(0, weight.numel() + 1, (size - 1,), generator=generator).sort().values
        for rank, part in enumerate(weight.flatten().tensor_split(ends)):
            parts[rank].append(part.clone())
    return parts


@settings(deadline=None, max_examples=60)
@given(
    size=st.sampled_from([2, 4]),
    seed=st.integers(0, 10_000),
    levels=st.sampled_from([2, 7, 10**6]),  # few levels: nearly every score is one of a tie
    share=st.floats(0, 1, exclude_max=True),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_however_the_weights_are_cut_into_shards_the_same_ones_go(size, seed, levels, share, dtype):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(3, 5), (1,), (40, 7), (0,), (2, 2)]
    weights = [(torch.randint(-levels, levels, shape, generator=generator) / 8).to(dtype) for shape in shapes]
    k = int(share * sum(weight.numel() for weight in weights))
    parts = pieces_of(weights, size, seed)
    cuts = on_ranks(size, lambda ranks: zero_smallest_(parts[ranks.rank], k, ranks=ranks))
    assert cuts == [zero_smallest_(weights, k)] * size
    together = [torch.cat([parts[rank][i] for rank in range(size)]) for i in range(len(weights))]
    assert_same(together, [weight.flatten() for weight in weights])


def test_asking_for_everything_is_refused():
    with pytest.raises(ValueError, match="k=3"):
        zero_smallest_([torch.ones(3)], 3)


def test_a_score_may_read_tensors_beside_the_weight(device):
    weight, worth = torch.ones(5, 7, device=device), torch.randn(5, 7, device=device)
    zero_smallest_([weight], 20, score=lambda w, s: s, inputs=[[worth]])
    assert torch.equal(weight == 0, worth <= worth.flatten().sort().values[19])


@settings(deadline=None)
@given(shape=st.sampled_from([(5,), (4, 6), (2, 3, 4)]), piece=st.integers(1, 30), turned=st.booleans())
def test_pieces_cover_every_element_once_in_order(shape, piece, turned):
    tensor = torch.arange(torch.Size(shape).numel()).view(shape)
    tensor = tensor.transpose(0, -1) if turned else tensor
    before, walking.CHUNK = walking.CHUNK, piece
    try:
        pieces = torch.cat([p.flatten() for (p,) in walking.chunks(tensor)])
    finally:
        walking.CHUNK = before
    torch.testing.assert_close(pieces, tensor.flatten())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_nan_is_one_score_and_the_largest_whatever_its_bits(dtype):
    integer = {2: torch.int16, 4: torch.int32}[dtype.itemsize]
    odd = torch.full((4, 64), torch.nan, dtype=dtype).view(integer)  # so many that they are computed as vectors
    odd[1:] += torch.tensor([[1], [torch.iinfo(integer).min], [torch.iinfo(integer).min + 1]], dtype=integer)
    nan = odd.view(dtype).flatten()
    keys = order_key(torch.cat([nan, torch.tensor([torch.inf, -torch.inf, 0.0], dtype=dtype)])).tolist()
    assert len(set(keys[:256])) == 1
    assert keys[0] > max(keys[256:])
    scores = torch.cat([nan, torch.arange(5.0).to(dtype)])
    cut = find_cut(lambda: [scores], 6, dtype=dtype)
    assert (math.isnan(cut.value), cut.below, cut.ties) == (True, 5, 1)
