"""Prior annealing: the spike narrows, one shot, and only the survivors move on, without the prior."""

import copy
import math

import pytest
import torch

import mgpp
from mgpp.functional.prior import half_width, spike_probability
from mgpp.methods.times import Run
from tests.test_contract import RAMP, STEPS
from tests.toy import NUM_WEIGHTS, Toy, assert_identical, batches, weights_of

SHAPE = {"slab_prob": 0.1, "spike_var_start": 0.05, "spike_var_end": 0.01, "slab_var": 0.5}
END = {"slab_prob": 0.1, "spike_var": 0.01, "slab_var": 0.5}


def started(method, kind=None):
    model, records = Toy(), []
    optimizer = kind(model) if kind else torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
    pruner = mgpp.Pruner(model, method, total_steps=STEPS, train_size=64, on_record=records.append)
    pruner.attach(optimizer)
    return model, optimizer, pruner, records


def take_steps(model, optimizer, steps: int, data=None) -> None:
    data = data or batches()
    for _ in range(steps):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()


def test_the_threshold_keeps_the_weights_likelier_from_the_slab():
    model, optimizer, pruner, records = started(mgpp.PriorAnnealing(**RAMP, **SHAPE, exact=False))
    take_steps(model, optimizer, 13)
    before = {name: weight.detach().clone() for name, weight in pruner.targets.items()}

    def look(optimizer, args, kwargs):
        before.update({name: weight.detach().clone() for name, weight in pruner.targets.items()})

    pruner.detach()
    optimizer.register_step_post_hook(look)  # registered first, it sees the weights just before they are pruned
    pruner.attach(optimizer)
    take_steps(model, optimizer, 1)
    for name, weight in pruner.targets.items():
        torch.testing.assert_close(weight != 0, spike_probability(before[name], **END) < 0.5)
    spike, slab = math.sqrt(END["spike_var"]), math.sqrt(END["slab_var"])
    paper = math.sqrt(2) * spike * slab / math.sqrt(slab**2 - spike**2) * math.sqrt(math.log(0.9 / 0.1 * slab / spike))
    assert records[0]["cut"] == pytest.approx(paper)
    assert records[0]["target"] == 0.75
    assert 0 < records[0]["sparsity"] == pruner.sparsity != 0.75


def test_exactly_the_asked_share_goes_at_the_ramps_end_and_none_before():
    model, optimizer, pruner, records = started(mgpp.PriorAnnealing(**RAMP))
    take_steps(model, optimizer, 13)
    assert records == []
    assert not any(pruner.zeros.values())
    take_steps(model, optimizer, 1)
    assert [record["step"] for record in records] == [14]
    assert sum(pruner.zeros.values()) == int(0.75 * NUM_WEIGHTS)


@pytest.mark.parametrize("exact", [True, False])
def test_the_refining_steps_are_those_of_the_loss_alone_on_the_survivors(exact):
    model, optimizer, pruner, records = started(mgpp.PriorAnnealing(**RAMP, **SHAPE, exact=exact))
    data = batches()
    take_steps(model, optimizer, 14, data)
    twin = Toy()
    twin.load_state_dict(model.state_dict())
    plain = torch.optim.AdamW(twin.parameters(), lr=1e-2, weight_decay=0)
    plain.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    gone = {name: weight == 0 for name, weight in pruner.targets.items()}
    for _ in range(6):
        batch = next(data)
        take_steps(model, optimizer, 1, iter([batch]))
        take_steps(twin, plain, 1, iter([batch]))
        for name, drop in gone.items():
            twin.get_parameter(name).data[drop] = 0
        assert_identical(weights_of(model), weights_of(twin))
    pruner.finish()
    assert len(records) == 1


def test_the_prior_goes_on_at_its_narrowest_until_a_later_shot():
    schedule_of = Run(total_steps=STEPS, train_size=64)
    recipe = mgpp.PriorAnnealing(**RAMP, prune_at=0.9).recipe(schedule_of)
    assert [t for t in range(1, STEPS + 1) if recipe.schedule.is_event(t)] == [18]
    assert [recipe.penalty.warm_up(t) for t in (2, 4, 18, 19)] == [0.5, 1.0, 1.0, 0.0]
    deviations = [math.sqrt(recipe.penalty.shape(t)["spike_var"]) for t in (1, 4, 9, 14, 18)]
    start, end = math.sqrt(1.4e-4), math.sqrt(3e-5)
    assert deviations == pytest.approx([start, start, (start + end) / 2, end, end])
    assert recipe.penalty.record(18)["half_width"] == pytest.approx(
        half_width(slab_prob=1e-7, spike_var=3e-5, slab_var=0.05)
    )


def test_a_run_that_skipped_the_shot_is_finished_with_it():
    model, optimizer, pruner, records = started(mgpp.PriorAnnealing(**RAMP, prune_at=STEPS))
    take_steps(model, optimizer, STEPS - 1)
    assert records == []
    pruner.finish()
    assert sum(pruner.zeros.values()) == int(0.75 * NUM_WEIGHTS)


def test_a_weaker_prior_is_one_of_more_examples():
    found = []
    for strength, train_size in ((0.25, 64), (1.0, 256)):
        model = Toy()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
        method = mgpp.PriorAnnealing(**RAMP, strength=strength)
        mgpp.Pruner(model, method, total_steps=STEPS, train_size=train_size).attach(optimizer)
        take_steps(model, optimizer, STEPS)
        found.append(weights_of(model))
    assert_identical(*found)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"initial_sparsity": 0.3}, r"initial_sparsity=0\.3"),
        ({"spike_var_start": 0.06}, r"spike_var_start=0\.06"),
        ({"spike_var_end": 0.0}, r"spike_var_end=0\.0"),
        ({"slab_prob": 1.0}, r"slab_prob=1\.0"),
        ({"strength": -1.0}, r"strength=-1\.0"),
        ({"prune_at": 0}, "prune_at=0"),
        ({"exact": False, "score": "curvature"}, "exact=False"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        mgpp.PriorAnnealing(sparsity=0.75, **settings)


@pytest.mark.parametrize("at", [13, STEPS + 1])
def test_a_shot_outside_the_ramps_end_and_the_runs_is_refused(at):
    with pytest.raises(ValueError, match=f"prune_at={at}"):
        started(mgpp.PriorAnnealing(**RAMP, prune_at=at))


@pytest.mark.parametrize(
    "kind",
    [
        lambda model: mgpp.SGHMC(model.parameters(), lr=1e-2, train_size=64, cool_after=14),
        lambda model: mgpp.SGLD(model.parameters(), lr=1e-2, train_size=64, cool_after=14),
    ],
    ids=["sghmc", "sgld"],
)
def test_sampling_optimizers_anneal_too_and_their_noise_never_revives_a_pruned_weight(kind):
    torch.manual_seed(0)
    model, optimizer, pruner, _ = started(mgpp.PriorAnnealing(**RAMP, spike_var_start=1e-2, spike_var_end=1e-3), kind)
    data = batches()
    take_steps(model, optimizer, 14, data)
    gone = {name: weight == 0 for name, weight in pruner.targets.items()}
    take_steps(model, optimizer, 6, data)
    for name, weight in pruner.targets.items():
        torch.testing.assert_close(weight == 0, gone[name])
    assert pruner.sparsity == 0.75
