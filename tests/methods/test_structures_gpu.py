"""Structured events on a GPU: exact, and nobody waits for them."""

import pytest
import torch
from torch import nn

import mgpp
from mgpp.functional.structure import Blocks, parse_structure
from tests.test_gpu import Stack, batch, ours, step, theirs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

WORDS = ["2x1", "4x4", "32x1", "2:4", "1:4"]
MORE = [{}, {"score": "curvature"}, {"fix_after_ramp": True}]


def start(word: str, optimizer_of, *, steps: int = 40, **more):
    torch.manual_seed(0)
    model = Stack().cuda()
    optimizer = optimizer_of(model.parameters())
    events: list[dict] = []
    own = {} if ":" in word else {"sparsity": 0.9}
    method = mgpp.MGPP(**own, structure=word, start=2, end=6, every=2, spike_var=1e-6, **more)
    pruner = mgpp.Pruner(model, method, total_steps=steps, train_size=1000, on_record=events.append)
    pruner.attach(optimizer)
    return model, optimizer, pruner, events


def shapes(pruner: mgpp.Pruner) -> list[tuple[int, int]]:
    return [tuple(weight.shape) for weight in pruner.targets.values()]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("optimizer_of", [theirs, ours])
@pytest.mark.parametrize("more", MORE, ids=str)
def test_every_event_leaves_what_was_asked_in_the_pattern(word, optimizer_of, more):
    model, optimizer, pruner, events = start(word, optimizer_of, **more)
    structure = parse_structure(word)
    data = batch()
    for _ in range(20):
        step(model, optimizer, data)
        pruner.settle()
        if not pruner.schedule.is_event(pruner.t):
            continue
        asked = structure.most(shapes(pruner), pruner.schedule.sparsity_at(pruner.t))
        if isinstance(structure, Blocks):
            asked -= asked % structure.size  # these blocks divide the matrices
        assert sum(pruner.zeros.values()) == asked
        assert (events[-1]["step"], events[-1]["zeros"]) == (pruner.t, pruner.zeros)
        for weight in pruner.targets.values():
            if isinstance(structure, Blocks):
                kept = (weight != 0).unflatten(0, (-1, structure.rows)).unflatten(2, (-1, structure.columns))
                assert set(kept.sum((1, 3)).unique().tolist()) <= {0, structure.size}
            elif pruner.t >= 6:
                assert ((weight != 0).unflatten(1, (-1, structure.group)).sum(-1) == structure.kept).all()


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("more", MORE[:2], ids=str)
def test_steps_after_the_ramp_never_wait_for_the_device(word, more):
    model, optimizer, _, _ = start(word, ours, steps=1000, **more)
    data = batch()
    for _ in range(12):
        step(model, optimizer, data)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(5):
            step(model, optimizer, data)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("word", WORDS)
def test_a_gpu_prunes_what_a_cpu_does(word):
    zeros = {}
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        model = Stack().to(device)
        own = {} if ":" in word else {"sparsity": 0.9}
        method = mgpp.GMP(**own, structure=word, start=0, end=1, every=1)
        pruner = mgpp.Pruner(model, method, total_steps=1)
        pruner.after_step()
        pruner.settle()
        zeros[device] = torch.cat([(weight == 0).flatten().cpu() for weight in pruner.targets.values()])
    # A block whose mean lies within rounding of the cut may fall on either side of it.
    assert (zeros["cpu"] != zeros["cuda"]).float().mean() < 1e-4
    assert zeros["cpu"].sum() == zeros["cuda"].sum()


def test_an_event_after_the_ramp_takes_a_number_a_block_and_no_copy_of_the_scores_for_two_of_four():
    for word, bytes_a_weight in (("4x4", 1.5), ("2:4", 0.1)):
        model, optimizer, pruner, _ = start(word, ours, steps=1000)
        data = batch()
        for _ in range(12):
            step(model, optimizer, data)
        optimizer.zero_grad(set_to_none=False)
        nn.functional.cross_entropy(model(data[0]), data[1]).backward()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        optimizer.step()
        torch.cuda.synchronize()
        largest = max(weight.nbytes for weight in pruner.targets.values())  # one matrix's scores, and its masks
        most = 2 * largest + bytes_a_weight * pruner.num_weights + (1 << 20)
        assert torch.cuda.max_memory_allocated() - before < most
