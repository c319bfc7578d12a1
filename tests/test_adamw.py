"""mgpp.AdamW is torch's AdamW that knows of the pruner."""

import copy
import gc
import pickle
import weakref

import pytest
import torch

import mgpp
from mgpp import kernels
from tests.toy import NUM_WEIGHTS, Toy, assert_identical, batches, weights_of

RAMP = {"sparsity": 0.75, "start": 4, "end": 14, "every": 3}


def train(model, optimizer, method, steps: int = 20) -> mgpp.Pruner | None:
    pruner = None
    if method is not None:
        pruner = mgpp.Pruner(model, method, total_steps=20, train_size=64)
        pruner.attach(optimizer)
    data = batches()
    for _ in range(steps):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    return pruner


METHODS = {
    "without a pruner": None,
    "coupled prior": mgpp.MGPP(**RAMP, spike_var=1e-4),
    "decoupled prior": mgpp.MGPP(**RAMP, spike_var=1e-4, decoupled=True),
    "curvature": mgpp.MGPP(**RAMP, spike_var=1e-4, score="curvature"),
    "no penalty": mgpp.GMP(**RAMP),
    "decoupled penalty of another kind": mgpp.L2(**RAMP, decoupled=True),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_it_trains_as_torchs_does(method):
    runs = []
    for kind in (torch.optim.AdamW, mgpp.AdamW):
        model = Toy()
        train(model, kind(model.parameters(), lr=1e-2, weight_decay=0.1), method)
        runs.append(weights_of(model))
    for name, value in runs[0].items():
        torch.testing.assert_close(runs[1][name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_its_checkpoint_is_torchs():
    model = Toy()
    optimizer = mgpp.AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer, None, steps=5)
    other = Toy()
    other.load_state_dict(model.state_dict())
    torchs = torch.optim.AdamW(other.parameters(), lr=1e-2)
    torchs.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # else they would share their moments
    back = mgpp.AdamW(Toy().parameters(), lr=1e-2)
    back.load_state_dict(torchs.state_dict())
    for mine, theirs in zip(optimizer.state.values(), back.state.values(), strict=True):
        assert_identical(mine, theirs)
    train(other, torchs, None, steps=3)
    train(model, optimizer, None, steps=3)
    assert {float(state["step"]) for state in torchs.state.values()} == {8.0}
    for name, value in weights_of(other).items():
        torch.testing.assert_close(weights_of(model)[name], value, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("setting", ["amsgrad", "maximize"])
def test_a_checkpoint_of_a_form_that_it_has_not_is_refused(setting):
    model = Toy()
    torchs = torch.optim.AdamW(model.parameters(), **{setting: True})
    with pytest.raises(ValueError, match=f"{setting}=True, which mgpp.AdamW cannot do"):
        mgpp.AdamW(model.parameters()).load_state_dict(torchs.state_dict())


def through_bytes(optimizer):
    return pickle.loads(pickle.dumps(optimizer))


@pytest.mark.parametrize("copied", [copy.deepcopy, through_bytes])
def test_a_copy_of_it_goes_on_as_it_would(copied):
    model, other = Toy(), Toy()
    optimizer = mgpp.AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer, None, steps=3)
    twin = copied(optimizer)
    params = [param for group in twin.param_groups for param in group["params"]]
    for mine, param in zip(other.parameters(), params, strict=True):
        mine.data = param.data  # the copy has parameters of its own
    for step in range(2):
        for mine, param in zip(model.parameters(), params, strict=True):
            mine.grad, param.grad = torch.full_like(mine, step + 0.5), torch.full_like(mine, step + 0.5)
        optimizer.step()
        twin.step()
    assert_identical(weights_of(model), weights_of(other))


def test_it_holds_no_moments_that_are_not_its_own_any_more():
    model = Toy()
    optimizer = mgpp.AdamW(model.parameters(), lr=1e-2)
    pruner = train(model, optimizer, mgpp.GMP(sparsity=0.5, start=1, end=4, every=1, score="curvature"), steps=6)
    old = [weakref.ref(state["exp_avg_sq"]) for state in optimizer.state.values()]
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    gc.collect()
    assert not any(one() is not None for one in old)
    train(model, optimizer, None, steps=2)
    old = [weakref.ref(state["exp_avg_sq"]) for state in optimizer.state.values()]
    pruner.detach()
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    gc.collect()
    assert not any(one() is not None for one in old)


def test_weights_that_are_not_the_optimizers_are_not_held_on_to():
    plan = kernels.Plan()
    plan.stepped.append(kernels.Stepped([torch.zeros(2)], [torch.ones(2)], 0.5))
    part = torch.zeros(2)
    gone = weakref.ref(part)
    assert plan.moments_of([part]) is None
    del part
    assert gone() is None


def test_a_weight_in_float64_is_stepped_in_float64():
    ours, theirs = Toy().double(), Toy().double()
    for model, kind in ((ours, mgpp.AdamW), (theirs, torch.optim.AdamW)):
        optimizer, data = kind(model.parameters(), lr=1e-2), batches()
        for _ in range(10):
            batch = next(data)
            model(x=batch["x"].double(), labels=batch["labels"])["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
    for name, value in weights_of(theirs).items():
        torch.testing.assert_close(weights_of(ours)[name], value, rtol=1e-12, atol=1e-14, msg=name)


@pytest.mark.parametrize("steps", [0, 3])
def test_a_sparse_gradient_is_refused_before_anything_moves(steps):
    weights = [torch.nn.Parameter(torch.ones(4, 2)) for _ in range(2)]
    optimizer = mgpp.AdamW([{"params": [weight]} for weight in weights])
    for _ in range(steps):
        for weight in weights:
            weight.grad = torch.ones(4, 2)
        optimizer.step()
    before = [weight.detach().clone() for weight in weights]
    weights[0].grad, weights[1].grad = torch.ones(4, 2), torch.ones(4, 2).to_sparse()
    with pytest.raises(RuntimeError, match="takes no sparse gradients"):
        optimizer.step()
    assert all(torch.equal(weight, was) for weight, was in zip(weights, before, strict=True))
    assert {float(state["step"]) for state in optimizer.state.values()} <= {0.0, float(steps)}


def test_complex_parameters_are_refused():
    weight = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
    weight.grad = torch.ones_like(weight)
    with pytest.raises(RuntimeError, match="takes no complex parameters"):
        mgpp.AdamW([weight]).step()


def test_what_others_keep_in_its_state_is_let_be():
    model = Toy()
    optimizer = mgpp.AdamW(model.parameters(), lr=1e-2)
    model.head.weight.requires_grad_(False)
    optimizer.state[model.head.weight]["ema"] = torch.ones(1)
    train(model, optimizer, None, steps=3)
    assert optimizer.state[model.head.weight].keys() == {"ema"}


def test_detaching_leaves_a_plain_optimizer():
    model, plain = Toy(), Toy()
    optimizer = mgpp.AdamW(model.parameters(), lr=1e-2)
    pruner = train(model, optimizer, METHODS["coupled prior"], steps=0)
    pruner.detach()
    train(model, optimizer, None)
    train(plain, mgpp.AdamW(plain.parameters(), lr=1e-2), None)
    assert_identical(weights_of(model), weights_of(plain))


def test_it_prunes_exactly():
    model = Toy()
    pruner = train(model, mgpp.AdamW(model.parameters(), lr=1e-2), METHODS["coupled prior"])
    assert sum(pruner.zeros.values()) == int(0.75 * NUM_WEIGHTS)


@pytest.mark.parametrize(
    ("settings", "message"), [({"lr": -1.0}, "lr=-1.0"), ({"betas": (0.9, 1.0)}, "betas="), ({"eps": -1e-8}, "eps=")]
)
def test_numbers_that_make_no_sense_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        mgpp.AdamW(Toy().parameters(), **settings)


def test_a_parameter_that_stands_still_keeps_its_own_count_of_steps():
    ours, theirs = Toy(), Toy()
    optimizers = mgpp.AdamW(ours.parameters(), lr=1e-2), torch.optim.AdamW(theirs.parameters(), lr=1e-2)
    for model, optimizer in zip((ours, theirs), optimizers, strict=True):
        data = batches()
        for step in range(9):
            model(**next(data))["loss"].backward()
            if step in (2, 3, 6):
                model.head.weight.grad = None
            if step == 4:
                optimizer.load_state_dict(optimizer.state_dict())
            optimizer.step()
            optimizer.zero_grad()
    counts = [[float(state["step"]) for state in optimizer.state.values()] for optimizer in optimizers]
    assert counts[0] == counts[1]
    for name, value in weights_of(theirs).items():
        torch.testing.assert_close(weights_of(ours)[name], value, rtol=1e-4, atol=1e-5, msg=name)


def moved(tensor: torch.Tensor) -> None:
    tensor.data = tensor.data * 0.5 + 1e-4


def replace_moment(optimizer, param, name="exp_avg_sq"):
    optimizer.state[param][name] = optimizer.state[param][name] * 0.5


def forget_one(optimizer, param):
    del optimizer.state[param]


def exchange_states(optimizer, param):
    """So that all that is kept stands in the same order as before, and belongs to others."""
    other = next(each for each in optimizer.state if each is not param and each.shape == param.shape)
    states = list(optimizer.state.values())
    keys = [{param: other, other: param}.get(key, key) for key in optimizer.state]
    optimizer.state.clear()
    optimizer.state.update(zip(keys, states, strict=True))


def new_states(optimizer, param):
    optimizer.state = type(optimizer.state)(dict, {key: dict(value) for key, value in optimizer.state.items()})
    replace_moment(optimizer, param, "exp_avg")


def in_two_groups(optimizer, param):
    first = optimizer.param_groups[0]
    first["params"] = [other for other in first["params"] if other is not param]
    optimizer.param_groups.append({**first, "params": [param], "lr": 3e-2})


def in_another_place(optimizer, param):
    params = optimizer.param_groups[0]["params"]
    here = next(i for i, other in enumerate(params) if other is param)
    there = next(i for i, other in enumerate(params) if other is not param and other.shape == param.shape)
    params[here], params[there] = params[there], params[here]


CHANGES = {
    "nothing": lambda optimizer, param: None,
    "a gradient is gone": lambda optimizer, param: setattr(param, "grad", None),
    "a gradient is not contiguous": lambda optimizer, param: setattr(param, "grad", param.grad.t().contiguous().t()),
    "a weight lies elsewhere": lambda optimizer, param: moved(param),
    "a moment lies elsewhere": lambda optimizer, param: moved(optimizer.state[param]["exp_avg_sq"]),
    "a moment is another tensor": replace_moment,
    "two weights have each other's state": exchange_states,
    "a weight has no state any more": forget_one,
    "all states are in another dict": new_states,
    "a checkpoint was loaded": lambda optimizer, param: optimizer.load_state_dict(optimizer.state_dict()),
    "a weight has a group of its own": in_two_groups,
    "two weights have changed places": in_another_place,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("method", [None, mgpp.GMP(**RAMP, score="curvature")], ids=["alone", "pruned by curvature"])
def test_what_is_changed_between_two_steps_is_seen_as_torchs_sees_it(change, method, device):
    """What it knows from the last step holds only as long as the tensors are the same and lie in the same place."""
    runs = []
    for kind in (torch.optim.AdamW, mgpp.AdamW):
        model = Toy().to(device)
        optimizer, data = kind(model.parameters(), lr=1e-2), batches(device=device)
        if method is not None:
            mgpp.Pruner(model, method, total_steps=20, train_size=64).attach(optimizer)
        for step in range(18):
            model(**next(data))["loss"].backward()
            if step in (5, 6, 16):
                change(optimizer, model.blocks[1][2].weight)
            optimizer.step()
            optimizer.zero_grad()
        runs.append(weights_of(model))
    for name, value in runs[0].items():
        torch.testing.assert_close(runs[1][name], value, rtol=1e-4, atol=1e-5, msg=name)
        assert torch.equal(runs[1][name] == 0, value == 0), name


def test_a_pruner_that_comes_later_finds_its_weights():
    runs = []
    for kind in (torch.optim.AdamW, mgpp.AdamW):
        model = Toy()
        optimizer = kind(model.parameters(), lr=1e-2)
        train(model, optimizer, None, steps=5)
        train(model, optimizer, METHODS["decoupled prior"])
        runs.append(weights_of(model))
    for name, value in runs[0].items():
        torch.testing.assert_close(runs[1][name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_two_pruners_prune_their_own_weights_each_by_its_method():
    runs = []
    for kind in (torch.optim.AdamW, mgpp.AdamW):
        model = Toy()
        optimizer, data = kind(model.parameters(), lr=1e-2), batches()
        methods = {"blocks.0.*": METHODS["decoupled prior"], "blocks.1.*": METHODS["curvature"]}
        for pattern, method in methods.items():
            mgpp.Pruner(model, method, total_steps=20, train_size=64, include=[pattern]).attach(optimizer)
        for _ in range(20):
            model(**next(data))["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
        runs.append(weights_of(model))
    for name, value in runs[0].items():
        torch.testing.assert_close(runs[1][name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_a_run_that_is_finished_after_a_checkpoint_was_loaded_scores_by_that_ones_moments():
    model = Toy()
    optimizer, data = mgpp.AdamW(model.parameters(), lr=1e-2), batches()
    pruner = mgpp.Pruner(model, mgpp.GMP(sparsity=0.5, start=0, end=20, every=20, score="curvature"), total_steps=20)
    pruner.attach(optimizer)
    for _ in range(3):
        model(**next(data))["loss"].backward()
        optimizer.step()
    state = optimizer.state_dict()
    state["state"] = {i: {**each, "exp_avg_sq": each["exp_avg_sq"].flip(0)} for i, each in state["state"].items()}
    optimizer.load_state_dict(state)
    scores = {
        name: (weight.abs() * optimizer.state[weight]["exp_avg_sq"].sqrt()).detach()
        for name, weight in pruner.targets.items()
    }
    pruner.finish()
    cut = torch.cat([score.flatten() for score in scores.values()]).sort().values[NUM_WEIGHTS // 2]
    for name, weight in pruner.targets.items():
        assert torch.equal(weight == 0, scores[name] < cut), name


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_go_as_torchs_let_them_go(to_none):
    model = Toy()
    optimizer = mgpp.AdamW(model.parameters())
    model(**next(batches()))["loss"].backward()
    model.head.bias.grad = None
    optimizer.zero_grad(set_to_none=to_none)
    grads = [param.grad for param in model.parameters() if param is not model.head.bias]
    assert all(grad is None if to_none else (grad == 0).all() for grad in grads)
    assert model.head.bias.grad is None


def test_steps_are_counted_past_256_where_half_precision_is_the_default():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        weight = torch.nn.Parameter(torch.zeros(3))
        optimizer = mgpp.AdamW([weight])
        for _ in range(301):
            weight.grad = torch.ones(3)
            optimizer.step()
        again = mgpp.AdamW([weight])
        again.load_state_dict(optimizer.state_dict())
    finally:
        torch.set_default_dtype(before)
    assert float(optimizer.state[weight]["step"]) == float(again.state[weight]["step"]) == 301
