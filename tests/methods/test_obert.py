"""Second-order pruning with sampled gradients: the reference's numbers, whole or streamed, and training undisturbed."""

import ast
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset
from transformers import Trainer, TrainingArguments

import mgpp
from mgpp.methods.obert import DIAGONAL, Span, group_spans
from tests.toy import NUM_WEIGHTS, Toy, assert_identical, batches, rows, weights_of

GOLDEN = Path(__file__).parent.parent / "golden" / "obert-block.npz"
STEPS = 20
RAMP = {"sparsity": 0.75, "start": 4, "end": 14, "every": 3}
FEW = {"num_grads": 6, "batch_size": 4, "block": 10, "damp": 1e-4}


class Counting:
    """A sampler that says how often it was asked, and for how many weights."""

    def __init__(self, sampler) -> None:
        self.sampler, self.calls = sampler, []

    def __call__(self, weights, *, count, batch_size, step):
        self.calls.append((len(weights), count, batch_size, step))
        return self.sampler(weights, count=count, batch_size=batch_size, step=step)


def start(model: nn.Module, method: mgpp.OBERT, *, gradients=None, **more) -> tuple[mgpp.Pruner, torch.optim.Optimizer]:
    gradients = gradients or mgpp.GradientSampler(model, rows())
    pruner = mgpp.Pruner(model, method, total_steps=STEPS, train_size=64, gradients=gradients, **more)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
    pruner.attach(optimizer)
    return pruner, optimizer


def take_steps(model, optimizer, steps: int = STEPS) -> None:
    data = batches()
    for _ in range(steps):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("memory_gb", [1.0, 1e-6])
@pytest.mark.parametrize("columns_first", [False, True])
def test_the_reference_event_is_matched(memory_gb, columns_first):
    golden = np.load(GOLDEN)
    cfg = ast.literal_eval(str(golden["cfg"]))
    layer = nn.Linear(14, 9, bias=False, dtype=torch.float64)
    weight = torch.from_numpy(golden["weight"].copy())
    layer.weight.data = weight.T.contiguous().T if columns_first else weight
    model = nn.Module()
    model.layers = nn.ModuleList([layer])

    def gradients(weights, *, count, batch_size, step):
        assert (count, batch_size, step) == (32, 16, 1)
        return ([torch.from_numpy(grad)] for grad in golden["grads"])

    method = mgpp.OBERT(
        sparsity=cfg["sparsity"], start=0, end=1, every=1, num_grads=32, block=10, damp=cfg["damp"], memory_gb=memory_gb
    )
    pruner = mgpp.Pruner(model, method, total_steps=1, include=["*"], gradients=gradients)
    pruner.after_step()
    torch.testing.assert_close(layer.weight.detach(), torch.from_numpy(golden["weight_after"]), rtol=1e-9, atol=0)
    assert torch.equal(pruner.memory.get("keep")[0], torch.from_numpy(golden["keep"]))
    torch.testing.assert_close(pruner.memory.get(DIAGONAL)[0], torch.from_numpy(golden["diag"]), rtol=1e-9, atol=0)
    lowest = golden["score"][golden["keep"]].min()
    assert pruner.last_record["cut"] == pytest.approx(lowest, rel=1e-9)


def test_streaming_by_groups_gives_what_holding_everything_gives():
    whole, streamed = Toy().double(), Toy().double()
    data = [{"x": row["x"].double(), "labels": row["labels"]} for row in rows()]
    for model, memory_gb in ((whole, 1.0), (streamed, 2e-5)):
        sampler = Counting(mgpp.GradientSampler(model, data))
        pruner, optimizer = start(model, mgpp.OBERT(**RAMP, **FEW, memory_gb=memory_gb), gradients=sampler)
        for _, batch in zip(range(STEPS), batches(), strict=False):
            model(x=batch["x"].double(), labels=batch["labels"])["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
        assert pruner.sparsity == 0.75
    # Four events prune; the streamed run has four groups, each of which is swept twice.
    assert len(sampler.calls) == 4 * 2 * 4
    for name, value in weights_of(whole).items():
        torch.testing.assert_close(weights_of(streamed)[name], value, rtol=1e-9, atol=1e-12)


def test_groups_hold_what_fits_and_cut_only_between_blocks():
    assert group_spans([25, 30], block=10, most=1000) == [[Span(0, 0, 25), Span(1, 0, 30)]]
    assert group_spans([25, 30], block=10, most=39) == [[Span(0, 0, 25)], [Span(1, 0, 30)]]
    assert group_spans([25, 30], block=10, most=49) == [[Span(0, 0, 25), Span(1, 0, 10)], [Span(1, 10, 30)]]
    assert group_spans([25], block=10, most=1) == [[Span(0, 0, 10)], [Span(0, 10, 20)], [Span(0, 20, 25)]]
    for most in range(1, 200, 7):
        groups = group_spans([96, 35, 1, 60], block=10, most=most)
        assert [span for group in groups for span in group if span.start % 10] == []
        for weight, size in enumerate([96, 35, 1, 60]):
            spans = [span for group in groups for span in group if span.weight == weight]
            assert [span.start for span in spans] == [0, *(span.stop for span in spans[:-1])]
            assert spans[-1].stop == size


def test_nothing_is_sampled_once_all_that_was_asked_is_gone():
    model = Toy()
    sampler = Counting(mgpp.GradientSampler(model, rows()))
    records: list[dict] = []
    _, optimizer = start(model, mgpp.OBERT(**RAMP, **FEW), gradients=sampler, on_record=records.append)
    take_steps(model, optimizer)
    assert [record["step"] for record in records] == [6, 9, 12, 15]
    assert sampler.calls == [(4, 6, 4, t) for t in (6, 9, 12, 15)]
    assert all(record["cut"] > 0 for record in records)


def test_what_is_pruned_stays_pruned_and_has_no_gradient_in_the_matrix():
    model = Toy()
    pruner, optimizer = start(model, mgpp.OBERT(**RAMP, **FEW))
    data = batches()
    gone = {name: torch.zeros_like(weight, dtype=torch.bool) for name, weight in pruner.targets.items()}
    for _ in range(STEPS):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        for i, (name, weight) in enumerate(pruner.targets.items()):
            assert (weight[gone[name]] == 0).all()
            if pruner.t in (9, 12, 15):
                diagonal = pruner.memory.get(DIAGONAL)[i]
                torch.testing.assert_close(diagonal[gone[name]], torch.full_like(diagonal[gone[name]], 1 / FEW["damp"]))
            gone[name] = weight.detach() == 0
    assert pruner.sparsity == 0.75


def test_the_weight_that_costs_least_goes_and_the_others_make_up_for_it():
    """On a linear regression the curvature is known, so the best single weight to remove, and the best refit, are."""
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(12, 12, generator=generator)
    x = torch.randn(4096, 12, generator=generator) @ mixing  # correlated inputs: another can stand in for one
    target = x @ torch.randn(12, 1, generator=generator) + 0.5 * torch.randn(4096, 1, generator=generator)

    class Regression(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(12, 1, bias=False)])
            self.layers[0].weight.data = torch.linalg.lstsq(x, target).solution.T.contiguous()

        def forward(self, x, y):
            return {"loss": (self.layers[0](x) - y).square().mean()}

    model = Regression()
    method = mgpp.OBERT(sparsity=0.09, start=0, end=1, every=1, num_grads=4096, batch_size=1, block=12, damp=1e-7)
    data = [{"x": a, "y": b} for a, b in zip(x, target, strict=True)]
    sampler = mgpp.GradientSampler(model, data)
    pruner = mgpp.Pruner(model, method, total_steps=1, include=["*"], gradients=sampler)
    pruner.after_step()
    refits = []
    for gone in range(12):
        others = [i for i in range(12) if i != gone]
        refit = torch.linalg.lstsq(x[:, others], target).solution
        refits.append(float((x[:, others] @ refit - target).square().mean()))
    with torch.no_grad():
        loss = float(model(x, target)["loss"])
    assert int((model.layers[0].weight == 0).flatten().nonzero()) == min(range(12), key=refits.__getitem__)
    assert loss == pytest.approx(min(refits), rel=1e-3)  # the Fisher matrix is a sample's, not the curvature itself


def test_sampling_leaves_the_model_its_gradients_and_every_generator_as_they_were():
    class Noisy(Toy):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = nn.Dropout(0.5)
            self.blocks[1].eval()  # somebody froze it so

        def forward(self, x, labels=None):
            return super().forward(self.dropout(x), labels)

    def collate(batch):
        torch.rand(3), random.random(), np.random.rand()
        return {key: torch.stack([row[key] for row in batch]) for key in batch[0]}

    model = Noisy()
    model.head.weight.grad = torch.ones_like(model.head.weight)
    sampler = mgpp.GradientSampler(model, rows(), collate=collate, seed=5)
    before = weights_of(model), [module.training for module in model.modules()]
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    weights = [model.blocks[0][0].weight, model.blocks[1][2].weight]
    first = [[grad.clone() for grad in grads] for grads in sampler(weights, count=5, batch_size=16, step=7)]
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[1:]
    assert [module.training for module in model.modules()] == before[1]
    assert_identical(weights_of(model), before[0])
    assert model.blocks[0][0].weight.grad is None
    assert torch.equal(model.head.weight.grad, torch.ones_like(model.head.weight))
    torch.manual_seed(99)  # nor does the sample depend on them
    again = list(sampler(weights, count=5, batch_size=16, step=7))
    torch.testing.assert_close(again, first, rtol=0, atol=0)
    other = list(sampler(weights, count=5, batch_size=16, step=8))
    assert not torch.equal(other[0][0], first[0][0])


def test_a_sample_takes_every_row_once_before_any_row_twice():
    seen: list[int] = []

    class Numbered(list):
        def __getitem__(self, i):
            seen.append(i)
            return super().__getitem__(i)

    sampler = mgpp.GradientSampler(Toy(), Numbered(rows()))
    list(sampler([sampler.model.head.weight], count=10, batch_size=16, step=1))
    assert sorted(seen[:64]) == sorted(seen[64:128]) == list(range(64))
    assert len(seen) == 160


def test_a_gradient_is_that_of_a_batchs_mean_loss():
    model = Toy()
    sampler = mgpp.GradientSampler(model, rows(16))
    (grads,) = sampler([model.head.weight], count=1, batch_size=16, step=1)
    batch = {key: torch.stack([row[key] for row in rows(16)]) for key in ("x", "labels")}
    (expected,) = torch.autograd.grad(model(**batch)["loss"], [model.head.weight])
    torch.testing.assert_close(grads[0], expected)  # in another order of the rows


def test_bf16_weights_prune_exactly():
    model = Toy().bfloat16()
    data = [{"x": row["x"].bfloat16(), "labels": row["labels"]} for row in rows()]
    pruner, optimizer = start(model, mgpp.OBERT(**RAMP, **FEW), gradients=mgpp.GradientSampler(model, data))
    for _, batch in zip(range(STEPS), batches(), strict=False):
        model(x=batch["x"].bfloat16(), labels=batch["labels"])["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    assert sum(pruner.zeros.values()) == int(0.75 * NUM_WEIGHTS)


def test_five_bytes_a_weight_between_events():
    model = Toy()
    pruner, optimizer = start(model, mgpp.OBERT(**RAMP, **FEW))
    take_steps(model, optimizer)
    assert pruner.memory.bytes == 5 * NUM_WEIGHTS


def test_a_method_that_samples_says_what_it_needs():
    with pytest.raises(ValueError, match=r"pass gradients=mgpp\.GradientSampler\(model, dataset\)"):
        mgpp.Pruner(Toy(), mgpp.OBERT(**RAMP), total_steps=STEPS)


def test_a_trainer_on_a_stream_needs_a_sampler_told(tmp_path):
    class Stream(IterableDataset):
        def __iter__(self):
            while True:
                yield from rows()

    args = TrainingArguments(
        output_dir=str(tmp_path), max_steps=STEPS, use_cpu=True, report_to="none", save_strategy="no", disable_tqdm=True
    )
    method = mgpp.OBERT(**RAMP, **FEW)
    with pytest.raises(ValueError, match=r"pass gradients=mgpp\.GradientSampler"):
        Trainer(Toy(), args, train_dataset=Stream(), callbacks=[mgpp.PruningCallback(method)]).train()
    model = Toy()
    sampler = Counting(mgpp.GradientSampler(model, rows()))
    pruning = mgpp.PruningCallback(method, gradients=sampler)
    Trainer(model, args, train_dataset=Stream(), callbacks=[pruning]).train()
    assert pruning.pruner.sparsity == 0.75
    assert sampler.calls


def test_a_sampler_that_stops_early_is_not_taken_for_a_smaller_sample():
    model = Toy()
    sampler = mgpp.GradientSampler(model, rows())

    def short(weights, *, count, batch_size, step):
        return sampler(weights, count=count - 1, batch_size=batch_size, step=step)

    _, optimizer = start(model, mgpp.OBERT(**RAMP, **FEW), gradients=short)
    with pytest.raises(ValueError, match="gave 5 gradients, 6 were asked for"):
        take_steps(model, optimizer)


def test_a_gradient_that_is_not_finite_is_refused():
    model = Toy()

    def broken(weights, *, count, batch_size, step):
        return ([torch.full_like(weight, float("nan")) for weight in weights] for _ in range(count))

    _, optimizer = start(model, mgpp.OBERT(**RAMP, **FEW), gradients=broken)
    with pytest.raises(FloatingPointError, match="after step 6 is not finite"):
        take_steps(model, optimizer)


def test_a_damp_that_rounding_swallows_is_refused():
    model = Toy()

    def large(weights, *, count, batch_size, step):
        generator = torch.Generator().manual_seed(0)
        return ([1e3 * torch.randn(w.shape, generator=generator) for w in weights] for _ in range(count))

    _, optimizer = start(model, mgpp.OBERT(**RAMP, **{**FEW, "damp": 1e-12}), gradients=large)
    with pytest.raises(FloatingPointError, match="damp=1e-12 is lost"):
        take_steps(model, optimizer)


def test_a_dataset_or_model_that_cannot_be_sampled_is_named():
    class Stream(IterableDataset):
        def __iter__(self):
            yield from rows()

    with pytest.raises(ValueError, match="Stream cannot be asked for a row by number"):
        mgpp.GradientSampler(Toy(), Stream())
    with pytest.raises(ValueError, match="empty"):
        mgpp.GradientSampler(Toy(), [])
    unlabelled = [{"x": row["x"]} for row in rows()]
    sampler = mgpp.GradientSampler(Toy(), unlabelled)
    with pytest.raises(ValueError, match="no loss for a batch of x: its rows need labels"):
        next(sampler([sampler.model.head.weight], count=1, batch_size=2, step=1))
    pairs = mgpp.GradientSampler(Toy(), [(row["x"], row["labels"]) for row in rows()])
    with pytest.raises(TypeError, match="a batch is a dict"):
        next(pairs([pairs.model.head.weight], count=1, batch_size=2, step=1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_grads": 0}, "num_grads=0"),
        ({"block": 2.5}, "block=2.5"),
        ({"batch_size": True}, "batch_size=True"),
        ({"damp": 0.0}, "damp=0.0"),
        ({"memory_gb": -1.0}, "memory_gb=-1.0"),
        ({"prior": "strong"}, "prior='strong'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        mgpp.OBERT(**RAMP, **settings)
