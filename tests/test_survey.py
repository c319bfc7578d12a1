"""A look tells what the weights say; a sample of them is enough, and looking changes nothing."""

import json

import pytest
import torch
from torch import nn

import mgpp
from mgpp.functional.prior import spike_probability
from mgpp.functional.ranks import ALONE, Ranks
from mgpp.methods.ramp import Schedule
from mgpp.survey import SAMPLE, Survey, count_sizes, steps_to_look_at, stride_for
from tests.ranks import on_ranks
from tests.test_contract import RAMP, STEPS, method_of
from tests.toy import NUM_WEIGHTS, Toy, assert_identical, batches, weights_of


def flat(model: nn.Module, pruner: mgpp.Pruner) -> torch.Tensor:
    return torch.cat([weight.detach().reshape(-1) for weight in pruner.targets.values()])


def train(case: str, *, looks: int) -> tuple[nn.Module, mgpp.Pruner, list[dict], list[torch.Tensor]]:
    """The records of a run's events, and all weights as they were just before each event and just after it."""
    model, told, seen = Toy(), [], []
    pruner = mgpp.Pruner(model, method_of(case), total_steps=STEPS, train_size=64, on_record=told.append, looks=looks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0)
    pruner.attach(optimizer, hooks=False)
    data = batches()
    for _ in range(STEPS):
        model(**next(data))["loss"].backward()
        pruner.before_step()
        optimizer.step()
        before = flat(model, pruner).clone()
        pruner.after_step()
        if pruner.schedule.is_event(pruner.t):
            seen.append(torch.stack([before, flat(model, pruner)]))
        optimizer.zero_grad()
    return model, pruner, [record for record in told if record["event"] == "prune"], seen


@pytest.mark.parametrize("case", ["mgpp", "platon"])
def test_what_came_back_is_what_was_zero_at_the_last_look_and_is_not_now(case):
    _, _, told, seen = train(case, looks=STEPS)
    assert "came_back" not in told[0]["look"]
    gone = seen[0][1] == 0
    shares = []
    for record, (_, after) in zip(told[1:], seen[1:], strict=True):
        shares.append(float((gone & (after != 0)).sum()) / float(gone.sum()))
        assert record["look"]["came_back"] == shares[-1]
        gone = after == 0
    assert max(shares) > 0  # else this run shows nothing


def test_what_is_held_stays_gone():
    _, _, told, _ = train("gmp-hold", looks=STEPS)
    assert [record["look"]["came_back"] for record in told[1:]] == [0.0] * (len(told) - 1)


def test_the_spike_holds_the_weights_that_it_is_the_likelier_source_of_just_before_the_event():
    _, pruner, told, seen = train("mgpp", looks=STEPS)
    shape = pruner.recipe.penalty.shape(1)
    for record, (before, after) in zip(told, seen, strict=True):
        likely = spike_probability(before.double(), **shape) > 0.5
        assert record["look"]["in_spike"] == pytest.approx(likely.double().mean().item(), abs=1 / NUM_WEIGHTS)
        left = after[after != 0].double()
        still = float((spike_probability(left, **shape) > 0.5).double().mean())
        assert record["look"]["left_in_spike"] == pytest.approx(still, abs=1 / NUM_WEIGHTS)
    assert 0 < told[-1]["look"]["in_spike"] < 1


def test_a_method_without_a_prior_has_no_spike():
    _, _, told, _ = train("l2", looks=STEPS)
    assert all("in_spike" not in record["look"] for record in told)


def test_sizes_count_every_weight_that_is_not_zero():
    _, _, told, seen = train("mgpp", looks=STEPS)
    for record, (before, after) in zip(told, seen, strict=True):
        sizes = record["look"]["sizes"]
        edges = [2 ** (sizes["log2"] + i / sizes["per_octave"]) for i in range(len(sizes["after"]) + 1)]
        for name, weights in (("before", before), ("after", after)):
            assert sum(sizes[name]) == int(weights.count_nonzero())
            # Half of them lie above the middle one's interval at most, and half below.
            half, running = sum(sizes[name]) / 2, 0
            middle = next(i for i, n in enumerate(sizes[name]) if (running := running + n) >= half)
            median = weights[weights != 0].abs().sort().values[(sum(sizes[name]) - 1) // 2]
            assert edges[middle] * 0.999 <= float(median) <= edges[middle + 1] * 1.001


def test_sizes_beyond_the_scale_and_not_finite_ones_break_nothing():
    counts = count_sizes(torch.tensor([0.0, 1e-30, 1e-7, 1.0, 1e30, float("inf"), float("nan")]))
    assert int(counts.sum()) == 6
    assert (int(counts[0]), int(counts[-1])) == (1, 2)


@pytest.mark.parametrize(("looks", "most"), [(1, 2), (4, 5), (100, 101)])
def test_looks_are_few_and_are_events_once_these_have_begun_the_last_among_them(looks, most):
    schedule = Schedule(sparsity=0.9, initial_sparsity=0.0, start=50, end=700, every=7, last=1000)
    steps = steps_to_look_at(schedule, looks)
    assert 1 <= len(steps) <= most
    assert all(schedule.is_event(step) for step in steps if step >= 56)
    assert 1000 in steps


def test_before_the_first_event_a_look_has_a_record_of_its_own():
    told: list[dict] = []
    model = Toy()
    pruner = mgpp.Pruner(model, method_of("mgpp"), total_steps=STEPS, train_size=64, on_record=told.append, looks=STEPS)
    pruner.attach(torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0), hooks=False)
    for _ in range(6):
        pruner.after_step()
    assert [(record["event"], record["step"]) for record in told] == [("look", t) for t in range(1, 6)] + [("prune", 6)]
    assert told[0]["warm_up"] == 1 / 4
    assert told[0]["look"].keys() == {"in_spike", "left_in_spike", "sizes"}
    assert pruner.last_record is told[-1]


def test_a_large_model_is_sampled_evenly_in_all_its_tensors_and_columns():
    torch.manual_seed(0)
    weights = [torch.randn(768, 768), torch.randn(3072, 768), torch.randn(768, 3072)]
    schedule = Schedule(sparsity=0.9, initial_sparsity=0.0, start=1, end=2, every=1, last=3)
    survey = Survey([weight.numel() for weight in weights], schedule, 2)
    total = sum(weight.numel() for weight in weights)
    assert SAMPLE / 2 < survey.sample_size == len(survey.sample(weights)) <= SAMPLE
    everything = torch.cat([weight.reshape(-1) for weight in weights])
    torch.testing.assert_close(survey.sample(weights), everything[:: survey.stride].abs())
    columns = {position % 768 for position in range(0, total, stride_for(total))}
    assert len(columns) == 768


def test_parts_of_the_weights_are_sampled_as_the_whole_and_remembered_for_any_number_of_ranks():
    torch.manual_seed(0)
    weights = [torch.randn(300, 700), torch.randn(5, 1), torch.randn(700, 301)]
    sizes = [weight.numel() for weight in weights]
    schedule = Schedule(sparsity=0.9, initial_sparsity=0.0, start=1, end=2, every=1, last=3)

    def look(held: list[torch.Tensor], starts: list[int], ranks: Ranks, state: dict) -> tuple[dict, dict]:
        survey = Survey(sizes, schedule, 3)
        survey.of_parts(starts, ranks)
        survey.load_state_dict(state, held)
        begun = survey.begin(3, held, 0.5)
        for part in held:
            part.masked_fill_(part.abs() < 0.3, 0)
        begun.end()
        return begun.told(), survey.state_dict(held)

    def parts(rank: int, size: int) -> tuple[list[torch.Tensor], list[int]]:
        cut = [[number * i // size for i in (rank, rank + 1)] for number in sizes]
        held = [weight.flatten()[a:b].clone() for weight, (a, b) in zip(weights, cut, strict=True)]
        return held, [start for start, _ in cut]

    before = {"was_zero": torch.rand(Survey(sizes, schedule, 3).sample_size) < 0.5}
    expected = look([weight.clone() for weight in weights], [0, 0, 0], ALONE, before)
    for size in (2, 4):
        for told, kept in on_ranks(size, lambda ranks, size=size: look(*parts(ranks.rank, size), ranks, before)):
            assert told == expected[0]
            assert torch.equal(kept["was_zero"], expected[1]["was_zero"])


def test_looking_changes_no_weight_and_is_plain_json():
    seen, _, told, _ = train("mgpp", looks=STEPS)
    blind, _, silent, _ = train("mgpp", looks=0)
    assert_identical(weights_of(seen), weights_of(blind))
    assert [{key: value for key, value in record.items() if key != "look"} for record in told] == silent
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_what_is_remembered_between_looks_is_a_byte_a_sampled_weight():
    model = nn.Module()
    model.layers = nn.ModuleList(nn.Linear(600, 600, bias=False) for _ in range(2))
    pruner = mgpp.Pruner(model, mgpp.GMP(**RAMP), total_steps=STEPS, include=["*"], looks=3)
    look = pruner.survey.begin(STEPS, list(pruner.targets.values()), None)
    look.end()
    (kept,) = pruner.survey.state_dict(list(pruner.targets.values())).values()
    assert kept.nbytes <= SAMPLE


def test_fewer_than_no_looks_are_refused():
    with pytest.raises(ValueError, match="looks=-1"):
        mgpp.Pruner(Toy(), method_of("gmp"), total_steps=STEPS, looks=-1)
