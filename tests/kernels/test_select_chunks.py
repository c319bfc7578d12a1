"""The same weights go however many chunks, tensors and launches they are spread over, and however long a chunk is."""

from dataclasses import replace

import pytest
import torch
import triton
import triton.language as tl

from mgpp.functional import select as plain
from mgpp.kernels import adamw as fast_adamw
from mgpp.kernels import layout as layout_of
from mgpp.kernels import select as fast
from mgpp.kernels import table
from mgpp.kernels.layout import lay_out
from mgpp.kernels.select_kernels import BELOW, HIT, SLOTS, TIED, TIES
from mgpp.kernels.table import MOST_CHUNKS, Table, find_tensor, part_of
from mgpp.kernels.zero_kernels import FROM, scan_kernel
from tests.kernels.test_select import DTYPES, assert_selects_alike
from tests.kernels.test_step import ADAM

FOUND = 1  # in the window, which counts that were wrong would have missed


@pytest.fixture
def short_chunks(monkeypatch) -> None:
    """Of 256, so that there are many; as many of them are scanned at once."""
    monkeypatch.setattr(table, "LEAST_CHUNK", 256)
    monkeypatch.setattr(fast, "LEAST_CHUNK", 256)


@pytest.fixture
def long_chunks(monkeypatch) -> None:
    """A tensor is one chunk."""
    monkeypatch.setattr(table, "MOST_CHUNKS", 1)


@pytest.mark.usefixtures("short_chunks")
def test_ties_over_more_chunks_than_are_scanned_at_once_go_by_position(device):
    weights = [torch.full((size,), -0.5, device=device) for size in (66_000, 1001)]
    weights[0][256 * 100 : 256 * 120] = 1.0  # chunks without any
    weights[1][::2] = 0.25
    assert_selects_alike(weights, 61_700)


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("k", [1, 700, 1500, 2500, 3900])
def test_ties_of_several_launches_go_by_position(k, device):
    sizes = (600, 0, 513, 256, 700, 0, 900, 1, 1024, 0)
    weights = [torch.full((size,), 0.5, device=device, dtype=DTYPES[i % 3]) for i, size in enumerate(sizes)]
    for weight in weights:
        weight[5::300] = 2.0
        weight[7::300] = 0.0
    assert_selects_alike(weights, k)


@pytest.mark.usefixtures("short_chunks")
def test_no_launch_takes_for_its_own_the_ties_of_anothers_chunks(device):
    """They would lie before its own tensors, or behind them."""
    memory = [torch.full((5000,), 0.5, device=device, dtype=dtype) for dtype in DTYPES]
    weights = [numbers[2000:2600] for numbers in memory]
    assert_selects_alike(weights, 900)
    for numbers in memory:
        assert (numbers[:2000] == 0.5).all()
        assert (numbers[2600:] == 0.5).all()


def far_below_and_near(dtype, device) -> torch.Tensor:
    """So many below the window that each lane counts nothing else for longer than it may without adding up."""
    below, near = torch.full((140_000,), 0.5), 1.5 + torch.rand(60_000) / 1024
    return torch.cat([below, near]).to(device, dtype)


@pytest.mark.usefixtures("long_chunks")
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_lane_counts_all_of_a_chunk_of_any_length(dtype, device):
    weights = [far_below_and_near(dtype, device)]
    selection = assert_selects_alike(weights, 170_000)
    assert selection.layout.chunk > len(weights[0])
    assert selection.told[HIT] == FOUND


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_tensors_shorter_than_what_is_sampled_side_by_side_all_is_sampled(dtype, device):
    numbers = 0.5 + torch.arange(58.0)[torch.randperm(58)]
    weights = [part.clone() for part in numbers.to(device, dtype).split([1, 2, 3, 3, 5, 7, 8] * 2)]
    selection = assert_selects_alike(weights, 41)
    assert selection.told[HIT] == FOUND


@pytest.mark.usefixtures("long_chunks")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_optimizers_count_is_right_in_a_chunk_of_any_length(dtype, device):
    weights = [far_below_and_near(dtype, device)]
    zeros, ones = [torch.zeros_like(weights[0])], [torch.ones_like(weights[0])]
    selection = assert_selects_alike(weights, 170_000)
    layout = lay_out("adamw", (weights, zeros, zeros, ones), {})
    flags = fast_adamw.flags_of(layout, [True], {})
    fast_adamw.adamw_(layout, flags, replace(ADAM, lr=1e-9), selection=selection)
    assert selection.state[BELOW] == 170_000
    expected = [weight.clone() for weight in weights]
    cut = plain.zero_smallest_(expected, 170_000)
    assert fast.zero_smallest_(selection, 170_000, counted=True).cut() == cut
    assert selection.told[HIT] == FOUND
    torch.testing.assert_close(weights, expected, rtol=0, atol=0)


def test_each_tensors_zeros_are_told_where_there_are_thousands_of_tensors(device):
    """Most of them empty, which costs the interpreter less."""
    weights = [torch.randn(7 if i % 300 == 7 else 0, device=device) for i in range(2500)]
    selection = assert_selects_alike(weights, 30)
    for weight in weights:
        weight.add_(0.1)
    assert_selects_alike(weights, 31, selection=selection)


def test_more_tensors_than_there_are_chunks_are_left_to_others(device):
    weights = [torch.ones(1, device=device)] * (MOST_CHUNKS + 1)
    assert lay_out("select", (weights,), {}) is None
    layout = lay_out("select", (weights[:-1],), {})
    assert layout is not None
    assert layout.chunks == MOST_CHUNKS


def test_one_tensor_is_left_to_others_if_beside_too_many_its_chunks_would_be_too_long(monkeypatch, device):
    """A lane counts its share of a program's chunks in as many bits as the longest needs."""
    monkeypatch.setattr(table, "MOST_CHUNKS", 4)
    monkeypatch.setattr(layout_of, "MOST_CHUNKS", 4)
    monkeypatch.setattr(table, "MOST_CHUNK", 4 * table.LEAST_CHUNK)
    sizes = [1, 1, 1, 4 * table.LEAST_CHUNK]
    weights = [torch.ones(size, device=device) for size in sizes]
    assert lay_out("select", (weights,), {}).chunk == 4 * table.LEAST_CHUNK
    assert lay_out("select", ([*weights[:-1], torch.ones(1 + sizes[-1], device=device)],), {}) is None


@pytest.mark.parametrize("chunks", [1, 8191, 8193, MOST_CHUNKS])
@pytest.mark.parametrize("having", [0.01, 1.0])
@pytest.mark.parametrize("going", [0.0, 0.4, 1.0])
def test_the_chunks_whose_ties_go_are_listed_in_order_with_how_many_precede_them(chunks, having, going, device):
    counts = torch.randint(1, 1 << 28, (chunks,), device=device) * (torch.rand(chunks, device=device) <= having)
    counts[-1] = 5
    total = int(counts.sum())
    ties = min(max(1, int(counts[: int(going * chunks)].sum())), total - 1)  # just a chunk's end
    state, low = (torch.zeros(length, dtype=torch.int64, device=device) for length in (SLOTS, 2))
    state[TIES] = ties
    listed = torch.full((MOST_CHUNKS,), 7, device=device)
    listed[:chunks] = counts
    scan_kernel[(1,)](state, low, listed, chunks, WIDTH=fast.WINDOW, FLOOR=True, BLOCK=fast.LEAST_CHUNK, num_warps=16)
    preceding = counts.cumsum(0) - counts
    expected = ((counts > 0) & (preceding < ties)).nonzero().squeeze(-1)
    assert int(state[TIED]) == len(expected)
    assert torch.equal(listed[: len(expected)], preceding[expected] << FROM | expected)


@pytest.mark.parametrize(("chunk", "at_once"), [(256, 256), (1024, 256), (256, 1024)])
@pytest.mark.parametrize("k", [255, 256, 257, 1023, 1024, 1025, 1279, 2047, 2050, 3071])
@pytest.mark.parametrize("dtype", DTYPES)
def test_ties_go_up_to_the_end_of_a_block_or_a_chunk_and_not_a_weight_further(
    k, chunk, at_once, dtype, monkeypatch, device
):
    monkeypatch.setattr(table, "LEAST_CHUNK", chunk)
    monkeypatch.setattr(fast, "LEAST_CHUNK", at_once)
    weights = [torch.full((size,), 0.5, device=device, dtype=dtype) for size in (2050, 1025)]
    weights[0][300:700] = 2.0
    assert_selects_alike(weights, min(k, 2050 + 1025 - 400))


@triton.jit
def _find_kernel(sizes, first_chunk, tensors, out, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    chunk = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tensor = find_tensor(first_chunk, tensors, chunk)
    start, size = part_of(sizes, first_chunk, tensor, chunk, CHUNK)
    tl.store(out + 3 * chunk, tensor)
    tl.store(out + 3 * chunk + 1, start)
    tl.store(out + 3 * chunk + 2, size)


@pytest.mark.parametrize(
    "sizes",
    [[5], [0, 5], [5, 0, 0], [0, 0, 5, 0, 1, 0], [10_000_000_001, 3, 2_900_000_000], [*range(40), 5_000_000_000, 0, 1]],
)
def test_a_chunk_is_found_in_its_tensor_however_large_that_is(sizes, device):
    found = Table(sizes, device, chunk=1 << 29)
    places = [(i, start) for i, size in enumerate(sizes) for start in range(0, size, found.chunk)]
    expected = [[i, start, min(sizes[i] - start, found.chunk)] for i, start in places]
    blocks = -(-found.chunks // 4)
    out = torch.zeros(4 * blocks, 3, dtype=torch.int64, device=device)
    _find_kernel[(blocks,)](found.sizes, found.first_chunk, len(sizes), out, CHUNK=found.chunk, BLOCK=4)
    assert out[: found.chunks].tolist() == expected
    assert (out[found.chunks :, 2] <= 0).all()  # beyond the last there is nothing to read
