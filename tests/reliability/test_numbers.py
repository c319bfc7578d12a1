"""Numbers that are not finite, or hardly are: the run stops with the reason and its state is whole, or it goes on."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import Trainer, TrainerCallback

pytest.importorskip("datasets")

import mgpp
from mgpp.cli import main
from mgpp.finite import MOST_SKIPS, first_broken
from mgpp.run import RunStopped, run
from mgpp.run.watch import Dense
from tests.run.test_resume import outcome
from tests.test_contract import CASES, EMERGENT, STEPS, assert_zeros_are_as_asked, method_of, start, take_steps
from tests.test_trainer import arguments
from tests.tiny import RAMP, At, save_tiny_bert, write_jsonl
from tests.toy import NUM_WEIGHTS, Toy, assert_identical, batches, rows, weights_of

INF, NAN = float("inf"), float("nan")
COUNTING = [case for case in CASES if case not in EMERGENT]


# Losses, gradients, weights


def loss_of(value: float):
    def spoil(model: nn.Module) -> None:
        def forward(*args, **kwargs):
            output = type(model).forward(model, *args, **kwargs)
            output.loss = output.loss * value
            return output

        model.forward = forward

    return spoil


def gradient_of(value: float, name: str):
    def spoil(model: nn.Module) -> None:
        dict(model.named_parameters())[name].register_hook(lambda grad: torch.full_like(grad, value))

    return spoil


def weight_of(value: float, name: str):
    def spoil(model: nn.Module) -> None:
        dict(model.named_parameters())[name].data.view(-1)[0] = value

    return spoil


SPOILED = {
    "a loss that is NaN": loss_of(NAN),
    "an infinite loss": loss_of(INF),
    "a gradient that is NaN": gradient_of(NAN, "bert.encoder.layer.0.output.dense.weight"),
    "an infinite gradient of what is not pruned": gradient_of(INF, "bert.embeddings.word_embeddings.weight"),
    "a weight that is NaN": weight_of(NAN, "bert.encoder.layer.1.output.dense.weight"),
    "an infinite weight that is not pruned": weight_of(INF, "classifier.bias"),
}


@pytest.mark.parametrize("what", SPOILED)
@pytest.mark.parametrize("method", [None, mgpp.MGPP(**RAMP)], ids=["dense", "mgpp"])
def test_a_run_stops_at_the_next_step_and_goes_on_from_its_last_checkpoint(what, method, config, tmp_path):
    config = replace(config, method=method)
    with pytest.raises(RunStopped, match=r"^the gradient of step 8 is (nan|inf): .*last good checkpoint is .*-6: the"):
        run(config, callbacks=[At(7, SPOILED[what])])
    assert run(config, resume=True)["steps"] == 10
    whole = replace(config, output=str(tmp_path / "whole"))
    run(whole)
    assert outcome(config) == outcome(whole)


@pytest.mark.parametrize("value", [INF, 1e30])
def test_without_clipping_a_gradient_is_refused_that_is_infinite_or_has_an_infinite_square(value, config):
    spoil = gradient_of(value, "bert.embeddings.word_embeddings.weight")
    with pytest.raises(RunStopped, match=r"the gradient of step 8 is (inf|nan): the step is refused"):
        run(replace(config, max_grad_norm=0.0), callbacks=[At(7, spoil)])


def test_a_gradient_with_an_infinite_norm_is_clipped_to_nothing_and_the_run_goes_on(config):
    result = run(config, callbacks=[At(7, gradient_of(1e30, "bert.embeddings.word_embeddings.weight"))])
    assert (result["steps"], result["sparsity"]) == (10, 0.75)


class Spoil(TrainerCallback):
    def on_step_end(self, args, state, control, model, **kwargs):
        if state.global_step == 10:
            model.head.weight.data[0, 0] = NAN


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    def trainer(*callbacks: TrainerCallback) -> Trainer:
        args = arguments(tmp_path, save_strategy="steps", save_steps=5)
        pruning = mgpp.PruningCallback(method_of("gmp-hold"))
        return Trainer(model=Toy(), args=args, train_dataset=rows(), callbacks=[*callbacks, pruning])

    with pytest.raises(FloatingPointError, match=r"after step 10 head.weight is not finite: the weights are lost"):
        trainer(Spoil()).train()
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-5"]
    resumed = trainer()
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    assert first_broken(resumed.model) is None


def test_of_a_run_without_a_method_neither():
    model = Toy()
    model.head.bias.data[1] = INF
    state, control = SimpleNamespace(global_step=4), SimpleNamespace(should_save=True)
    with pytest.raises(FloatingPointError, match=r"after step 4 head.bias is not finite"):
        Dense().on_step_end(None, state, control, model=model)


def test_large_weights_are_no_broken_ones():
    model = Toy()
    model.head.weight.data[0, 0] = 3e38
    assert first_broken(model) is None


def test_a_model_that_comes_with_bad_weights_is_refused_by_their_name(tmp_path, tiny_reviews, capsys):
    folder = save_tiny_bert(tmp_path / "bert")
    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.0.output.dense.weight"][3, 3] = NAN
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    words = ["prune", str(folder), str(tiny_reviews), "--output", str(tmp_path / "out"), "--sparsity=0.5"]
    assert main([*words, "--device=cpu"]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert "encoder.layer.0.output.dense.weight has numbers that are not finite" in told
    assert not (tmp_path / "out").exists()
    assert main(["evaluate", str(folder), str(tiny_reviews), "--device=cpu"]) in (1, 2)


def test_a_score_that_is_not_finite_is_one_line(config):
    with pytest.raises(RunStopped, match=r"^the loss on the evaluation rows is nan: look at"):
        run(config, callbacks=[At(10, loss_of(NAN))])
    assert run(config, resume=True)["steps"] == 10


# Steps that a scaler skips


ADAMS = {
    "torch's": lambda params: torch.optim.AdamW(params, lr=1e-2, weight_decay=0, fused=False),
    "torch's, fused": lambda params: torch.optim.AdamW(params, lr=1e-2, weight_decay=0, fused=True),
    "ours": lambda params: mgpp.AdamW(params, lr=1e-2, weight_decay=0),
}


def scaled_steps(case: str, *, overflow_at: int | None, adam: str) -> tuple[dict, list[dict], int]:
    model = Toy()
    records: list[dict] = []
    sampler = mgpp.GradientSampler(model, rows(), seed=3)
    pruner = mgpp.Pruner(
        model, method_of(case), total_steps=STEPS, train_size=64, gradients=sampler, on_record=records.append
    )
    optimizer = ADAMS[adam](model.parameters())
    pruner.attach(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    data, taken = batches(), 0
    while taken < STEPS:
        overflows = taken == overflow_at and scaler.get_scale() == 128.0
        loss = model(**next(batches()))["loss"] * INF if overflows else model(**next(data))["loss"]
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        taken += not overflows
    return weights_of(model), records, pruner.t


@pytest.mark.parametrize("adam", ADAMS)
@pytest.mark.parametrize("case", ["mgpp", "mgpp-curvature", "gmp-hold", "platon", "soft-movement", "movement-prior"])
@pytest.mark.parametrize("overflow_at", [2, 6, 15])
def test_the_step_after_a_skipped_one_is_as_if_that_had_never_been(case, overflow_at, adam):
    weights, records, t = scaled_steps(case, overflow_at=overflow_at, adam=adam)
    expected, expected_records, _ = scaled_steps(case, overflow_at=None, adam=adam)
    assert t == STEPS
    assert_identical(weights, expected)
    assert records == expected_records


@pytest.mark.parametrize("pruned", [False, True])
def test_a_run_whose_every_step_is_skipped_stops_with_the_reason(pruned, tmp_path):
    model = Toy()
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.step = lambda *args, **kwargs: None  # as a scaler that never finds a scale
    callback = mgpp.PruningCallback(mgpp.GMP(sparsity=0.5)) if pruned else Dense()
    args = arguments(tmp_path, max_steps=2 * MOST_SKIPS)
    trainer = Trainer(model=model, args=args, train_dataset=rows(), callbacks=[callback], optimizers=(optimizer, None))
    before = weights_of(model)
    with pytest.raises(FloatingPointError, match=f"the last {MOST_SKIPS} steps were skipped"):
        trainer.train()
    assert MOST_SKIPS <= trainer.state.global_step <= MOST_SKIPS + 1
    assert_identical(weights_of(model), before)


# Weights that are hard to tell apart


@pytest.mark.parametrize("case", COUNTING)
def test_a_layer_of_equal_weights_is_pruned_to_the_exact_count(case):
    model = Toy()
    nn.init.constant_(model.blocks[0][0].weight, 0.25)
    pruner, optimizer, _ = start(case, model)
    take_steps(model, optimizer, batches(), STEPS)
    assert_zeros_are_as_asked(case, pruner, pruner.zeros, pruner.schedule.sparsity)


@pytest.mark.parametrize("case", COUNTING)
def test_weights_too_small_for_normal_numbers_are_pruned_to_the_exact_count(case):
    model = Toy()
    pruner, optimizer, _ = start(case, model)
    for weight in pruner.targets.values():
        weight.data.mul_(1e-40)
        assert int((weight != 0).sum()) == weight.numel()
    take_steps(model, optimizer, batches(), STEPS)
    assert_zeros_are_as_asked(case, pruner, pruner.zeros, pruner.schedule.sparsity)
    assert all(torch.isfinite(weight).all() for weight in model.parameters())


def test_the_smallest_of_them_go():
    model = Toy()
    method = mgpp.GMP(sparsity=0.5, start=1, end=2)
    pruner = mgpp.Pruner(model, method, total_steps=2)
    for weight in pruner.targets.values():
        weight.data.mul_(1e-40)
    flat = torch.cat([weight.data.flatten() for weight in pruner.targets.values()])
    largest = flat.abs().argsort(stable=True)[NUM_WEIGHTS // 2 :].sort().values
    for _ in range(2):
        pruner.before_step()
        pruner.after_step()
    left = torch.cat([weight.data.flatten() for weight in pruner.targets.values()]).nonzero().flatten()
    ties = flat.abs()[largest].min() == flat.abs()[flat.abs().argsort(stable=True)[NUM_WEIGHTS // 2 - 1]]
    assert left.numel() == NUM_WEIGHTS // 2
    assert ties or torch.equal(left, largest)


# One row


@pytest.mark.parametrize(
    ("method", "more"), [("mgpp", []), ("gmp", []), ("platon", []), ("obert", ["--set=num_grads=16"])]
)
def test_one_row_is_enough_to_train_on(method, more, tmp_path, tiny_llama, capsys):
    for name in ("train", "validation"):
        write_jsonl(tmp_path / "data" / f"{name}.jsonl", [{"text": "the film is very rather the plot and a"}])
    words = ["prune", str(tiny_llama), str(tmp_path / "data"), "--output", str(tmp_path / "out"), "--sparsity=0.75"]
    words += ["--task=clm", "--max-length=8", "--max-steps=10", f"--method={method}", "--set=start=2", "--set=end=8"]
    words += ["--device=cpu", "--json", *more]
    assert main(words) == 2
    assert "training rows do not fill one batch of 32: lower --batch-size" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    code = main([*words, "--batch-size=1"])
    out, err = capsys.readouterr()
    assert code == 0, err
    result = json.loads(out)
    assert (result["train_rows"], result["zeros"]) == (1, int(0.75 * result["prunable"]))


@pytest.mark.parametrize("label", [1, 0.5])
def test_one_row_with_a_label_has_nothing_to_teach(label, tmp_path, tiny_bert, capsys):
    for name in ("train", "validation"):
        write_jsonl(tmp_path / "data" / f"{name}.jsonl", [{"text": "a great film", "label": label}])
    words = ["prune", str(tiny_bert), str(tmp_path / "data"), "--output", str(tmp_path / "out"), "--sparsity=0.75"]
    assert main([*words, "--device=cpu", "--batch-size=1"]) == 2
    assert f"every training label is {label}: there is nothing to learn" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
