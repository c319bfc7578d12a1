"""Any method that selects by score takes a structure, and its zeros keep the pattern at every event."""

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

import mgpp
from mgpp.functional.structure import Blocks, parse_structure
from mgpp.methods import Method, from_dict
from tests.test_contract import FEW_GRADIENTS
from tests.toy import Toy, batches, rows

STEPS = 12
RAMP = {"start": 2, "end": 8, "every": 2}
METHODS: dict[str, dict] = {
    "mgpp": {"method": "mgpp", "spike_var": 1e-4},
    "mgpp-fixed": {"method": "mgpp", "spike_var": 1e-4, "fix_after_ramp": True},
    "gmp": {"method": "gmp"},
    "gmp-hold": {"method": "gmp", "hold": True},
    "l2": {"method": "l2", "score": "curvature"},
    "platon": {"method": "platon"},
    "itp": {"method": "itp"},
    "movement": {"method": "movement"},
    "movement-global": {"method": "movement", "scope": "global"},
    "obert": {"method": "obert", **FEW_GRADIENTS},
    "prior-annealing": {"method": "prior_annealing"},
}
WORDS = ["2x1", "4x4", "32x1", "3x5", "2:4", "1:3", "1:8"]


def method_of(name: str, word: str, **more) -> Method:
    own = {} if ":" in word else {"sparsity": 0.7}
    return from_dict({**METHODS[name], **RAMP, "structure": word, **own, **more})


def pruner_for(model: nn.Module, method: Method, *, on_record=None) -> mgpp.Pruner:
    sampler = mgpp.GradientSampler(model, rows(), seed=3)
    return mgpp.Pruner(model, method, total_steps=STEPS, train_size=64, gradients=sampler, on_record=on_record)


def cut_blocks(weight: torch.Tensor, blocks: Blocks) -> list[torch.Tensor]:
    return [block for row in weight.split(blocks.rows) for block in row.split(blocks.columns, dim=1)]


def assert_pattern(weight: torch.Tensor, word: str, *, complete: bool) -> None:
    structure = parse_structure(word)
    if isinstance(structure, Blocks):
        for block in cut_blocks(weight, structure):
            assert (block == 0).all() or (block != 0).all()
        return
    for group in weight.split(structure.group, dim=1):
        kept = (group != 0).sum(1)
        assert (kept >= min(structure.kept, group.shape[1])).all()
        if complete:
            assert (kept <= structure.kept).all()


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", METHODS)
def test_the_pattern_holds_at_every_event_and_is_complete_in_the_end(name, word):
    model, events = Toy(), []
    pruner = pruner_for(model, method_of(name, word), on_record=events.append)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
    pruner.attach(optimizer)
    data = batches()
    for t in range(1, STEPS + 1):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        if pruner.schedule.is_event(t):
            assert events[-1]["step"] == t
            assert events[-1]["zeros"] == pruner.zeros
            for weight in pruner.targets.values():
                assert_pattern(weight, word, complete=t >= 8)
    zeros = sum(pruner.zeros.values())
    structure = parse_structure(word)
    shapes = [(12, 8), (8, 12)] * 2
    final = pruner.schedule.sparsity
    assert structure.least(shapes, final) <= zeros <= structure.most(shapes, final)
    assert pruner.asked_zeros == structure.least(shapes, final)


class OneLayer(nn.Module):
    """A stack of one layer, as Linear or as GPT-2's Conv1D, which stores its weight the other way round."""

    def __init__(self, conv1d: bool) -> None:
        super().__init__()
        layer = Conv1D(12, 8) if conv1d else nn.Linear(8, 12)
        weight = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))
        layer.weight.data = weight.t().contiguous() if conv1d else weight
        layer.bias.data.zero_()
        self.layers = nn.ModuleList([nn.Sequential(layer)])

    def forward(self, x, labels):
        return {"loss": nn.functional.cross_entropy(self.layers[0](x), labels)}


@pytest.mark.parametrize("word", ["2x1", "1x2", "5x3", "2:4"])
@pytest.mark.parametrize("name", METHODS)
def test_a_layer_that_stores_its_weight_transposed_is_pruned_alike(name, word):
    weights = {}
    for conv1d in (False, True):
        model = OneLayer(conv1d)
        pruner = pruner_for(model, method_of(name, word))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
        pruner.attach(optimizer)
        data = batches()
        for _ in range(STEPS):
            model(**next(data))["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
        weight = model.layers[0][0].weight.detach()
        weights[conv1d] = weight.t() if conv1d else weight
    assert (weights[False] == 0).any()
    if name == "obert":  # its Fisher blocks follow the storage, so it chooses others: by the same pattern
        assert_pattern(weights[True], word, complete=True)
    else:
        torch.testing.assert_close(weights[True], weights[False], rtol=1e-4, atol=1e-6)
        assert torch.equal(weights[True] == 0, weights[False] == 0)


@pytest.mark.parametrize("word", ["2x1", "2:4"])
def test_the_fused_optimizer_prunes_in_the_pattern_too(word):
    weights = []
    for kind in (torch.optim.AdamW, mgpp.AdamW):
        model = Toy()
        pruner = pruner_for(model, method_of("mgpp", word))
        optimizer = kind(model.parameters(), lr=1e-2, weight_decay=0)
        pruner.attach(optimizer)
        data = batches()
        for _ in range(STEPS):
            model(**next(data))["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
        weights.append(torch.cat([weight.detach().flatten() for weight in pruner.targets.values()]))
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-3, atol=1e-5)
    assert torch.equal(weights[1] == 0, weights[0] == 0)


def test_n_of_m_brings_its_sparsity_along():
    method = mgpp.MGPP(structure="2:4")
    assert method.sparsity == 0.5
    assert method == mgpp.MGPP(structure="2:4", sparsity=0.5)
    assert mgpp.GMP(structure="1:3", sparsity=2 / 3).sparsity == pytest.approx(2 / 3)
    assert from_dict({"method": "mgpp", "structure": "1:4"}).sparsity == 0.75


def test_a_structure_is_part_of_what_a_resumed_run_must_share():
    pruner = pruner_for(Toy(), method_of("gmp", "2x1"))
    other = pruner_for(Toy(), method_of("gmp", "1x2"))
    with pytest.raises(ValueError, match="structure: saved 2x1, now 1x2"):
        other.load_state_dict(pruner.state_dict())


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"method": "mgpp", "structure": "2:4", "sparsity": 0.9}, r'sparsity=0\.9: structure="2:4" keeps 2 of every 4'),
        ({"method": "mgpp", "structure": "2x1"}, "sparsity is missing"),
        ({"method": "mgpp"}, "mgpp needs a sparsity"),
        ({"method": "mgpp", "structure": "two by one", "sparsity": 0.5}, "structure='two by one'"),
        ({"method": "mgpp", "structure": 24, "sparsity": 0.5}, "structure=24"),
        ({"method": "losparse", "structure": "2:4"}, "LoSparse removes whole rows"),
        ({"method": "soft_movement", "structure": "2x1", "sparsity": 0.5}, "a threshold takes weights one by one"),
        (
            {"method": "prior_annealing", "structure": "2x1", "sparsity": 0.5, "exact": False},
            "exact=False takes weights one by one",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_reason(settings, told):
    with pytest.raises(ValueError, match=told):
        from_dict(settings)


def test_a_sparsity_that_is_missing_is_missed_by_the_constructor_too():
    with pytest.raises(ValueError, match="sparsity is missing"):
        mgpp.GMP()


def test_a_weight_that_is_no_matrix_is_refused_by_name():
    vector = nn.Parameter(torch.ones(8))
    with pytest.raises(ValueError, match=r"a\.weight has shape \(8,\): structure='2x1' is for matrices"):
        mgpp.GMP(sparsity=0.5, structure="2x1").prepare(nn.Module(), {"a.weight": vector})
    mgpp.GMP(sparsity=0.5).prepare(nn.Module(), {"a.weight": vector})


@pytest.mark.parametrize("word", ["2x1", "2:4"])
def test_pruned_weights_grow_back_between_events_and_not_where_they_are_held(word):
    grown = {}
    for name in ("gmp", "gmp-hold"):
        model = Toy()
        pruner = pruner_for(model, method_of(name, word, every=4))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
        pruner.attach(optimizer)
        data = batches()
        for _ in range(6):  # the one event so far was after step 4
            model(**next(data))["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
        zeros = sum(pruner.zeros.values())
        grown[name] = sum(pruner.last_record["zeros"].values()) - zeros
    assert grown["gmp"] > 0
    assert grown["gmp-hold"] == 0


@pytest.mark.parametrize("name", ["gmp", "gmp-hold", "movement", "movement-global"])
def test_a_zero_of_the_model_itself_does_not_condemn_its_block(name):
    """Large weights, each beside one that is zero from the start and stays so, for it has no gradient."""
    model = nn.Module()
    model.layers = nn.ModuleList([nn.Sequential(nn.Linear(8, 8, bias=False))])
    weight = model.layers[0][0].weight
    small = torch.linspace(0.01, 0.02, 8).repeat(4, 1)
    weight.data = torch.cat([torch.stack([torch.full((8,), 5.0), torch.zeros(8)]).repeat(2, 1), small])
    pruner = pruner_for(model, method_of(name, "2x1", sparsity=0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    pruner.attach(optimizer)
    for _ in range(STEPS):
        # Movement keeps what moves away from zero.
        weight.grad = torch.cat([torch.tensor([[-1.0], [0.0]]).repeat(2, 8), torch.full((4, 8), 1e-3)])
        optimizer.step()
    assert (weight[:4:2] != 0).all()
    assert (weight[4:] == 0).all()
    assert sum(pruner.zeros.values()) == 16 + 32
    assert sum(pruner.last_record["zeros"].values()) == 48


def test_a_run_that_skipped_steps_ends_in_the_pattern_and_one_that_has_it_is_left_alone():
    events: list[dict] = []
    model = Toy()
    pruner = pruner_for(model, method_of("gmp", "3x5"), on_record=events.append)
    for _ in range(STEPS - 1):
        pruner.before_step()
        pruner.after_step()
    told = len(events)
    pruner.finish()
    assert len(events) == told
    fresh = pruner_for(Toy(), method_of("gmp", "2:4"), on_record=events.append)
    fresh.finish()
    assert fresh.sparsity == 0.5
