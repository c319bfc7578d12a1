"""The learned mask without model surgery is the straight-through mask that autograd would build."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

import mgpp
from mgpp.methods.learned import MOMENTS, SCORE
from tests.toy import NUM_WEIGHTS, Toy, assert_identical, batches, weights_of

STEPS = 20
RAMP = {"sparsity": 0.75, "start": 4, "end": 14, "every": 3}
HARD = mgpp.Movement(**RAMP)
# So fast and so weak that in twenty steps some scores cross the threshold, and not all.
SOFT = mgpp.SoftMovement(**RAMP, score_lr=0.3, score_penalty=5.0, exact=False)


class StraightThrough(torch.autograd.Function):
    """W ⊙ M forward; backward as if M were S in the product: dL/dW = dL/dW' ⊙ M and dL/dS = dL/dW' ⊙ W."""

    @staticmethod
    def forward(ctx, weight: Tensor, score: Tensor, keep: Tensor) -> Tensor:
        ctx.save_for_backward(weight, keep)
        return weight * keep

    @staticmethod
    def backward(ctx, grad: Tensor):
        weight, keep = ctx.saved_tensors
        return grad * keep, grad * weight, None


class Explicit:
    """Movement pruning as one would write it first: latent weights and scores as parameters of their own."""

    def __init__(self, model: nn.Module, names: list[str]) -> None:
        self.model, self.names = model, names
        self.weights = {name: nn.Parameter(model.get_parameter(name).detach().clone()) for name in names}
        self.scores = {name: nn.Parameter(torch.zeros_like(self.weights[name])) for name in names}
        self.keep = {name: torch.ones_like(self.weights[name], dtype=torch.bool) for name in names}

    def masked(self) -> dict[str, Tensor]:
        return {n: StraightThrough.apply(self.weights[n], self.scores[n], self.keep[n]) for n in self.names}

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        return functional_call(self.model, self.masked(), kwargs=batch)["loss"]

    def rest(self) -> list[nn.Parameter]:
        return [param for name, param in self.model.named_parameters() if name not in self.weights]


def double_batches():
    for batch in batches():
        yield {"x": batch["x"].double(), "labels": batch["labels"]}


def start(model: nn.Module, method, **more) -> tuple[mgpp.Pruner, torch.optim.Optimizer]:
    pruner = mgpp.Pruner(model, method, total_steps=STEPS, train_size=64, **more)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
    pruner.attach(optimizer)
    return pruner, optimizer


def take_steps(model, optimizer, data, steps: int = STEPS) -> None:
    for _ in range(steps):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()


def lowest_of_each_layer(scores: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    keep, seen = {}, 0
    for name, score in scores.items():
        k = int(share * (seen + score.numel())) - int(share * seen)
        seen += score.numel()
        order = score.detach().flatten().argsort(stable=True)
        keep[name] = torch.ones(score.numel(), dtype=torch.bool)
        keep[name][order[:k]] = False
        keep[name] = keep[name].view(score.shape)
    return keep


def lowest_of_all(scores: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    flat = torch.cat([score.detach().flatten() for score in scores.values()])
    keep = torch.ones(flat.numel(), dtype=torch.bool)
    keep[flat.argsort(stable=True)[: int(share * flat.numel())]] = False
    parts = keep.split([score.numel() for score in scores.values()])
    return {name: part.view(scores[name].shape) for name, part in zip(scores, parts, strict=True)}


@pytest.mark.parametrize(("scope", "choose"), [("layer", lowest_of_each_layer), ("global", lowest_of_all)])
def test_a_whole_run_equals_one_with_an_explicit_straight_through_mask(scope, choose):
    model = Toy().double()
    pruner, optimizer = start(model, mgpp.Movement(**RAMP, scope=scope))
    explicit = Explicit(Toy().double(), list(pruner.targets))
    weights = torch.optim.AdamW([*explicit.weights.values(), *explicit.rest()], lr=1e-2, weight_decay=0)
    scores = torch.optim.Adam(explicit.scores.values(), lr=1e-2)
    data, same = double_batches(), double_batches()
    for t in range(1, STEPS + 1):
        take_steps(model, optimizer, data, 1)
        explicit.loss(next(same)).backward()
        for opt in (weights, scores):
            opt.step()
            opt.zero_grad()
        if pruner.schedule.is_event(t):
            explicit.keep = choose(explicit.scores, pruner.schedule.sparsity_at(t))
        for i, (name, masked) in enumerate(explicit.masked().items()):
            score = pruner.memory.zeros(SCORE)[i]
            torch.testing.assert_close(score, explicit.scores[name].detach(), rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(pruner.targets[name].detach(), masked.detach(), rtol=1e-9, atol=1e-12)


def test_soft_movement_equals_autograd_through_the_mask_and_the_penalty():
    model = Toy().double()
    pruner, optimizer = start(model, SOFT)
    explicit = Explicit(Toy().double(), list(pruner.targets))
    weights = torch.optim.AdamW([*explicit.weights.values(), *explicit.rest()], lr=1e-2, weight_decay=0)
    scores = torch.optim.Adam(explicit.scores.values(), lr=0.3)
    data, same = double_batches(), double_batches()
    emerged = 0
    for t in range(1, STEPS + 1):
        take_steps(model, optimizer, data, 1)
        progress = 0.0 if t < 4 else 1.0 if t >= 14 else 1 - (1 - (t - 4) / 10) ** 3
        everything = torch.cat([score.flatten() for score in explicit.scores.values()])
        (explicit.loss(next(same)) + 5.0 * progress * torch.sigmoid(everything).mean()).backward()
        for opt in (weights, scores):
            opt.step()
            opt.zero_grad()
        if pruner.schedule.is_event(t):
            explicit.keep = {name: torch.sigmoid(s.detach()) > 0.1 * progress for name, s in explicit.scores.items()}
            assert pruner.last_record["cut"] == pytest.approx(0.1 * progress)
        for i, (name, masked) in enumerate(explicit.masked().items()):
            score = pruner.memory.zeros(SCORE)[i]
            torch.testing.assert_close(score, explicit.scores[name].detach(), rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(pruner.targets[name].detach(), masked.detach(), rtol=1e-9, atol=1e-12)
        emerged = sum(int((~keep).sum()) for keep in explicit.keep.values())
        assert pruner.sparsity == emerged / NUM_WEIGHTS
    assert 0 < emerged < NUM_WEIGHTS


def test_hard_movement_chooses_its_mask_at_every_step_unless_told_otherwise():
    records: list[dict] = []
    model = Toy()
    ramp = {name: value for name, value in RAMP.items() if name != "every"}
    _, optimizer = start(model, mgpp.Movement(**ramp), on_record=records.append)
    take_steps(model, optimizer, batches())
    assert [record["step"] for record in records if record["event"] == "prune"] == list(range(4, STEPS + 1))
    assert (mgpp.Movement(**ramp, every=3).every, mgpp.SoftMovement(**ramp).every) == (3, 10)


def test_soft_movement_records_what_emerges_and_what_is_asked():
    records: list[dict] = []
    model = Toy()
    _, optimizer = start(model, mgpp.SoftMovement(**RAMP, score_lr=0.3), on_record=records.append)
    take_steps(model, optimizer, batches())
    early = [record for record in records if record["step"] < 14]
    assert {record["target"] for record in early} == {0.0}
    assert any(record["sparsity"] > 0 for record in early)
    assert {(record["target"], record["sparsity"]) for record in records if record["step"] >= 14} == {(0.75, 0.75)}
    assert all(0 < record["cut"] < 1 for record in records)


@pytest.mark.parametrize("method", [HARD, SOFT])
@pytest.mark.parametrize("fused", [False, True])
def test_a_step_skipped_by_the_scaler_changes_nothing(method, fused):
    model = Toy()
    pruner = mgpp.Pruner(model, method, total_steps=STEPS, train_size=64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0, fused=fused)
    pruner.attach(optimizer)
    scaler, data = torch.amp.GradScaler("cpu", init_scale=128.0), batches()
    for step in range(10):
        scaler.scale(model(**next(data))["loss"]).backward()
        before, memory = weights_of(model), copied(pruner)
        if step == 8:
            model.head.weight.grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if step == 8:
            assert_identical(weights_of(model), before)
            torch.testing.assert_close(copied(pruner), memory, rtol=0, atol=0)
    assert pruner.t == 9


def copied(pruner: mgpp.Pruner) -> dict:
    return {kind: {n: t.clone() for n, t in of.items()} for kind, of in pruner.memory.state_dict().items()}


@pytest.mark.parametrize("where", ["blocks.0.0.weight", "head.weight"])
def test_explicit_calls_with_a_scaler_end_where_the_hooks_do(where):
    hooked, explicit = Toy(), Toy()
    for model, attach in ((hooked, True), (explicit, False)):
        pruner = mgpp.Pruner(model, HARD, total_steps=STEPS, train_size=64)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
        if attach:
            pruner.attach(optimizer)
        scaler, data = torch.amp.GradScaler("cpu", init_scale=128.0), batches()
        for step in range(STEPS + 1):
            scaler.scale(model(**next(data))["loss"]).backward()
            if step == 8:
                model.get_parameter(where).grad[0, 0] = float("inf")
            scaler.unscale_(optimizer)
            if not attach:
                pruner.before_step(grad_scale=1.0)
            scaler.step(optimizer)
            scale = scaler.get_scale()
            scaler.update()
            if not attach:
                pruner.after_step(skipped=scaler.get_scale() < scale)
            optimizer.zero_grad()
        assert pruner.t == STEPS
        assert pruner.sparsity == 0.75
    assert_identical(weights_of(explicit), weights_of(hooked))


def test_a_step_that_the_user_skips_leaves_the_mask_on():
    model = Toy()
    pruner, optimizer = start(model, HARD)
    take_steps(model, optimizer, batches(), 16)
    pruner.detach()
    before = weights_of(model)
    model(**next(batches()))["loss"].backward()
    pruner.before_step()
    pruner.after_step(skipped=True)
    assert_identical(weights_of(model), before)
    assert pruner.t == 16


@pytest.mark.parametrize("fused", [False, True])
def test_a_scale_of_two_to_the_seventh_changes_no_bit(fused):
    plain, scaled = Toy(), Toy()
    for model, scaler in ((plain, None), (scaled, torch.amp.GradScaler("cpu", init_scale=128.0))):
        pruner = mgpp.Pruner(model, SOFT, total_steps=STEPS, train_size=64)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0, fused=fused)
        pruner.attach(optimizer)
        data = batches()
        for _ in range(STEPS):
            loss = model(**next(data))["loss"]
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            optimizer.zero_grad()
    assert_identical(weights_of(scaled), weights_of(plain))


def test_a_masked_weight_keeps_its_value_and_comes_back_with_it():
    model = Toy()
    pruner = mgpp.Pruner(model, mgpp.Movement(**{**RAMP, "every": 1}), total_steps=STEPS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)  # no momentum: only a gradient moves it
    pruner.attach(optimizer)
    data, returned = batches(), 0
    names = list(pruner.targets)
    previous: dict[str, tuple[Tensor, Tensor]] = {}
    for _ in range(STEPS):
        take_steps(model, optimizer, data, 1)
        state = copied(pruner)
        if "keep" not in state:
            continue
        for name in names:
            keep, latent, weight = state["keep"][name], state["latent"][name], pruner.targets[name].detach()
            assert torch.equal(weight, latent * keep)
            if name in previous:
                masked, value = previous[name]
                assert torch.equal(latent[masked], value[masked])
                returned += int((masked & keep).sum())
            previous[name] = (~keep, latent)
    assert returned > 0


def test_every_layer_gives_up_the_same_share():
    model = Toy()
    pruner, optimizer = start(model, HARD)
    take_steps(model, optimizer, batches())
    assert pruner.zeros == dict.fromkeys(pruner.targets, 72)
    everywhere = Toy()
    pruner, optimizer = start(everywhere, mgpp.Movement(**RAMP, scope="global"))
    take_steps(everywhere, optimizer, batches())
    assert set(pruner.zeros.values()) != {72}


def test_rounding_in_one_layer_is_made_up_in_the_next():
    model = Toy()
    pruner, optimizer = start(model, mgpp.Movement(**{**RAMP, "sparsity": 0.999}))
    take_steps(model, optimizer, batches())
    assert list(pruner.zeros.values()) == [95, 96, 96, 96]  # int(0.999·96), then the rest of int(0.999·192) ...


@pytest.mark.parametrize("method", [HARD, mgpp.Movement(**RAMP, scope="global")])
def test_weights_that_are_zero_themselves_are_among_the_zeros_asked(method):
    records: list[dict] = []
    model = Toy()
    for block in model.blocks:
        block[0].weight.data.view(-1)[::6] = 0
    pruner, optimizer = start(model, method, on_record=records.append)
    idle = [block[0].weight for block in model.blocks]
    data = batches()
    for _ in range(STEPS):
        model(**next(data))["loss"].backward()
        for weight in idle:
            weight.grad = None  # so that those zeros stay
        optimizer.step()
        optimizer.zero_grad()
    assert records
    for record in records:
        assert sum(record["zeros"].values()) == max(32, int(record["target"] * NUM_WEIGHTS))
    assert sum(pruner.zeros.values()) == int(0.75 * NUM_WEIGHTS)


def test_more_zero_weights_than_are_asked_for_do_not_shrink_the_mask():
    model = Toy()
    for block in model.blocks:
        nn.init.zeros_(block[2].weight)
    method = mgpp.Movement(sparsity=0.1, start=0, end=1, every=1, scope="global")
    pruner, optimizer = start(model, method)
    take_steps(model, optimizer, batches(), 1)  # Adam moves every zero that has a gradient
    assert sum(int((~keep).sum()) for keep in pruner.memory.get("keep")) == int(0.1 * NUM_WEIGHTS)


def test_the_scores_follow_the_learning_rate_schedule():
    model = Toy()
    pruner, optimizer = start(model, HARD)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if step < 2 else 0.5)
    data, moved = batches(), []
    for _ in range(3):
        before = [score.clone() for score in pruner.memory.zeros(SCORE)]
        take_steps(model, optimizer, data, 1)
        schedule.step()
        mean, square = (pruner.memory.zeros(kind)[0] for kind in MOMENTS)
        t = pruner.t
        step = mean / (1 - 0.9**t) / ((square / (1 - 0.999**t)).sqrt() + 1e-8)
        moved.append(((before[0] - pruner.memory.zeros(SCORE)[0]) / step).mean())
    torch.testing.assert_close(torch.stack(moved), torch.tensor([0.01, 0.01, 0.005]), rtol=1e-4, atol=0)


def test_the_prior_pulls_the_latent_weights_masked_ones_too():
    with_prior, without = Toy(), Toy()
    latents = []
    for model, prior in ((with_prior, mgpp.Prior(spike_var=1e-4)), (without, None)):
        pruner, optimizer = start(model, mgpp.Movement(**RAMP, prior=prior))
        take_steps(model, optimizer, batches())
        assert pruner.sparsity == 0.75
        latents.append(
            torch.cat(
                [
                    latent[~keep]
                    for latent, keep in zip(pruner.memory.get("latent"), pruner.memory.get("keep"), strict=True)
                ]
            )
        )
    assert latents[0].abs().mean() < latents[1].abs().mean()


def test_bf16_weights_prune_exactly_and_learn_their_scores_in_float32():
    model = Toy().bfloat16()
    pruner, optimizer = start(model, HARD)
    for _, batch in zip(range(STEPS), batches(), strict=False):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(**batch)["loss"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert sum(pruner.zeros.values()) == int(0.75 * NUM_WEIGHTS)
    assert {score.dtype for score in pruner.memory.get(SCORE)} == {torch.float32}
    assert {latent.dtype for latent in pruner.memory.get("latent")} == {torch.bfloat16}


@pytest.mark.parametrize("method", [HARD, SOFT])
def test_seventeen_bytes_a_weight(method):
    model = Toy()
    pruner, optimizer = start(model, method)
    take_steps(model, optimizer, batches())
    assert pruner.memory.bytes == 17 * NUM_WEIGHTS


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (mgpp.Movement, {"scope": "row"}, "scope='row' is not one of layer, global"),
        (mgpp.Movement, {"score_lr": 0.0}, "score_lr=0.0"),
        (mgpp.Movement, {"prior": 3}, "prior=3"),
        (mgpp.SoftMovement, {"threshold": 1.0}, "threshold=1.0"),
        (mgpp.SoftMovement, {"score_penalty": -1.0}, "score_penalty=-1.0"),
        (mgpp.SoftMovement, {"score_lr": math.nan}, "score_lr=nan"),
        (mgpp.SoftMovement, {"initial_sparsity": 0.5}, "initial_sparsity=0.5"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**RAMP, **settings)
