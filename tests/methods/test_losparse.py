"""Layers W = UV + S: the same function, rows pruned, saved and loaded like any other, and merged back."""

import copy
import json

import pytest
import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)
from transformers.pytorch_utils import Conv1D

import mgpp
from mgpp.functional.lowrank import rank_for
from mgpp.targets import find_targets
from tests.toy import NUM_WEIGHTS, Toy, batches, rows, weights_of

STEPS = 20
RAMP = {"sparsity": 0.7, "start": 4, "end": 14, "every": 3}
METHOD = mgpp.LoSparse(**RAMP)


def bert(**more) -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=32, **more,
    )  # fmt: skip
    return BertForSequenceClassification(config).eval()


def gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=32, n_embd=24, n_layer=2, n_head=2)).eval()


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(0, 40, shape, generator=torch.Generator().manual_seed(1))


def logits(model: nn.Module, *shape: int) -> torch.Tensor:
    with torch.no_grad():
        return model(tokens(*shape)).logits


def start(model: nn.Module, method: mgpp.LoSparse = METHOD, **more) -> tuple[mgpp.Pruner, torch.optim.Optimizer]:
    pruner = mgpp.Pruner(model, method, total_steps=STEPS, **more)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
    pruner.attach(optimizer)
    return pruner, optimizer


def take_steps(model, optimizer, steps: int = STEPS) -> None:
    data = batches()
    for _ in range(steps):
        model(**next(data))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("make", [bert, gpt2])
def test_the_layers_compute_what_the_model_computed_at_any_batch_shape(make):
    model = make()
    dense = copy.deepcopy(model)
    added = mgpp.prepare(model, mgpp.LoSparse(sparsity=0.5, ratio=0.2))
    layers = [module for module in model.modules() if isinstance(module, mgpp.LowRankSparse)]
    assert len(added) == 2 * len(layers) == 2 * len(find_targets(dense))
    for shape in ((1, 1), (2, 7), (3, 20), (1, 5)):
        torch.testing.assert_close(logits(model, *shape), logits(dense, *shape), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(8,), (5, 8), (2, 3, 8), (2, 0, 8)])
@pytest.mark.parametrize("conv1d", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_layer_takes_any_shape_and_merges_back(shape, conv1d, dtype, device):
    torch.manual_seed(0)
    plain = (Conv1D(12, 8) if conv1d else nn.Linear(8, 12)).to(device, dtype)
    nn.init.normal_(plain.bias)
    x = torch.randn(shape).to(device, dtype)
    expected, weight, bias = plain(x), plain.weight.detach().clone(), plain.bias
    layer = mgpp.LowRankSparse.replacing(plain, 3)
    tolerance = {"rtol": 0, "atol": 16 * torch.finfo(dtype).eps}
    torch.testing.assert_close(layer(x), expected, **tolerance)
    merged = layer.merge()
    assert type(merged) is type(plain)
    assert merged.bias is bias
    torch.testing.assert_close(merged.weight.detach(), weight, **tolerance)
    torch.testing.assert_close(merged(x), expected, **tolerance)


def test_a_layer_without_bias_stays_without():
    plain = nn.Linear(8, 12, bias=False)
    layer = mgpp.LowRankSparse.replacing(plain, 2)
    assert set(layer.state_dict()) == {"weight", "left", "right"}
    assert layer.merge().bias is None


def test_whole_rows_go_the_fewest_that_reach_the_sparsity():
    records: list[dict] = []
    model = Toy()
    pruner, optimizer = start(model, on_record=records.append)
    take_steps(model, optimizer)
    left = sum(p.numel() for p in pruner.added.values()) + sum(int((w != 0).sum()) for w in pruner.targets.values())
    assert pruner.num_added == 4 * (12 + 8)  # rank 1 is the least there is
    assert pruner.sparsity == pytest.approx(1 - left / NUM_WEIGHTS)
    assert pruner.sparsity == records[-1]["sparsity"]
    zeros = sum(pruner.zeros.values())
    asked = int(0.7 * NUM_WEIGHTS) + 80
    assert asked <= zeros < asked + 12
    last = 0
    for weight in pruner.targets.values():
        gone = (weight == 0).all(dim=1)
        assert torch.equal((weight == 0).any(dim=1), gone)
        last += int(gone.sum())
    assert 0 < last < 40


def test_the_rows_that_go_have_the_lowest_mean_sensitivity():
    model = Toy()
    pruner, optimizer = start(model)
    take_steps(model, optimizer)
    means = torch.cat([smoothed.mean(1) for smoothed in pruner.memory.get("sensitivity")])
    gone = torch.cat([(weight == 0).all(dim=1) for weight in pruner.targets.values()])
    assert means[gone].max() <= pruner.last_record["cut"] == means[~gone].min()


def test_the_ramp_starts_with_all_of_s_and_pays_for_u_and_v_on_the_way():
    records: list[dict] = []
    model = Toy()
    pruner, optimizer = start(model, mgpp.LoSparse(**{**RAMP, "every": 1}), on_record=records.append)
    assert pruner.sparsity == -80 / NUM_WEIGHTS
    take_steps(model, optimizer)
    assert records[0]["step"] == 4
    assert sum(records[0]["zeros"].values()) == 0
    counts = [sum(record["zeros"].values()) for record in records]
    assert counts == sorted(counts)
    for record in records:
        asked = int(record["target"] * NUM_WEIGHTS) + int(80 * min(1, record["target"] / 0.7))
        assert asked <= sum(record["zeros"].values()) < asked + 12


def test_rows_may_grow_back():
    model = Toy()
    pruner, optimizer = start(model)
    take_steps(model, optimizer, 13)
    assert sum(pruner.zeros.values()) < int(pruner.schedule.sparsity_at(12) * NUM_WEIGHTS)


def test_a_sparsity_that_leaves_no_room_for_u_and_v_is_refused_before_the_model_is_touched():
    model = Toy()
    before = weights_of(model)
    with pytest.raises(ValueError, match=r"sparsity=0\.9 leaves 39 of 384 weights .* ratio=0\.05 alone has 80"):
        mgpp.Pruner(model, mgpp.LoSparse(**{**RAMP, "sparsity": 0.9}), total_steps=STEPS)
    torch.testing.assert_close(weights_of(model), before, rtol=0, atol=0)


def test_an_optimizer_made_too_early_is_told_of_what_it_misses():
    model = Toy()
    optimizer = torch.optim.AdamW(model.parameters())
    pruner = mgpp.Pruner(model, METHOD, total_steps=STEPS)
    with pytest.raises(ValueError, match=r"8 parameters that the method added .* blocks\.0\.0\.left the first"):
        pruner.attach(optimizer)


def test_preparing_twice_changes_nothing():
    model = Toy()
    first = mgpp.prepare(model, METHOD)
    after = weights_of(model)
    second = mgpp.prepare(model, METHOD)
    assert [id(value) for value in first.values()] == [id(value) for value in second.values()]
    torch.testing.assert_close(weights_of(model), after, rtol=0, atol=0)


def test_a_callback_given_after_the_trainer_was_made_is_too_late_and_says_so(tmp_path):
    args = TrainingArguments(output_dir=str(tmp_path), max_steps=STEPS, use_cpu=True, report_to="none")
    trainer = Trainer(model=Toy(), args=args, train_dataset=rows())
    trainer.add_callback(mgpp.PruningCallback(METHOD))
    with pytest.raises(ValueError, match=r"Trainer\(callbacks=\.\.\.\)"):
        trainer.train()


def test_a_trainers_checkpoint_resumes_to_the_same_bits_and_its_model_loads(tmp_path):
    data = [{"input_ids": tokens(6), "labels": torch.tensor(i % 2)} for i in range(16)]

    def trained(folder, **more) -> Trainer:
        args = TrainingArguments(
            output_dir=str(folder), max_steps=12, per_device_train_batch_size=4, learning_rate=1e-3, use_cpu=True,
            report_to="none", save_steps=5, disable_tqdm=True,
        )  # fmt: skip
        method = mgpp.LoSparse(sparsity=0.6, ratio=0.1, every=2)
        trainer = Trainer(bert(), args, train_dataset=data, callbacks=[mgpp.PruningCallback(method)])
        trainer.train(**more)
        return trainer

    whole = trained(tmp_path / "run")
    resumed = trained(tmp_path / "run", resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-5"))
    torch.testing.assert_close(weights_of(resumed.model), weights_of(whole.model), rtol=0, atol=0)
    whole.save_model(str(tmp_path / "final"))
    loaded = mgpp.load_pretrained(tmp_path / "final")
    assert torch.equal(logits(loaded, 2, 9), logits(whole.model.eval(), 2, 9))
    for folder in (tmp_path / "final", tmp_path / "run" / "checkpoint-10"):
        assert any(isinstance(module, mgpp.LowRankSparse) for module in mgpp.load_pretrained(folder).modules())


@pytest.mark.parametrize("make", [bert, gpt2])
def test_a_saved_folder_loads_with_its_layers(make, tmp_path):
    model = make()
    mgpp.prepare(model, mgpp.LoSparse(sparsity=0.5, ratio=0.2))
    for weight in find_targets(model).values():
        weight.data[::2] = 0
    model.save_pretrained(tmp_path)
    loaded = mgpp.load_pretrained(tmp_path)
    assert type(loaded) is type(model)
    torch.testing.assert_close(weights_of(loaded), weights_of(model), rtol=0, atol=0)
    assert torch.equal(logits(loaded, 2, 9), logits(model, 2, 9))
    pruner = mgpp.Pruner(loaded, mgpp.LoSparse(sparsity=0.5, ratio=0.2), total_steps=10)
    assert sum(pruner.zeros.values()) == pruner.num_weights // 2


def test_a_saved_folder_in_shards_and_in_bf16_loads_too(tmp_path):
    model = bert().bfloat16()
    mgpp.prepare(model, mgpp.LoSparse(sparsity=0.5, ratio=0.2))
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    loaded = mgpp.load_pretrained(tmp_path)
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.bfloat16}
    torch.testing.assert_close(weights_of(loaded), weights_of(model), rtol=0, atol=0)


@pytest.mark.parametrize(("make", "auto"), [(bert, AutoModelForSequenceClassification), (gpt2, AutoModelForCausalLM)])
def test_plain_transformers_refuses_the_layers_and_loads_the_merged_model(make, auto, tmp_path):
    model = make()
    mgpp.prepare(model, mgpp.LoSparse(sparsity=0.5, ratio=0.2))
    for weight in find_targets(model).values():
        weight.data[::2] = 0
    model.save_pretrained(tmp_path / "layers")
    with pytest.raises(RuntimeError, match="mismatch"):
        auto.from_pretrained(tmp_path / "layers")
    note = json.loads((tmp_path / "layers" / "config.json").read_text())["mgpp_low_rank"]
    assert note["load_with"] == "mgpp.load_pretrained(folder)"

    expected = logits(model, 2, 9)
    assert mgpp.merge_(model) is model
    assert not any(isinstance(module, mgpp.LowRankSparse) for module in model.modules())
    torch.testing.assert_close(logits(model, 2, 9), expected, rtol=1e-4, atol=1e-5)
    model.save_pretrained(tmp_path / "dense")
    assert "mgpp_low_rank" not in json.loads((tmp_path / "dense" / "config.json").read_text())
    plain = auto.from_pretrained(tmp_path / "dense")
    assert type(plain) is type(model)
    torch.testing.assert_close(weights_of(plain), weights_of(model), rtol=0, atol=0)
    assert torch.equal(logits(plain, 2, 9), logits(model, 2, 9))
    assert torch.equal(logits(mgpp.load_pretrained(tmp_path / "dense"), 2, 9), logits(model, 2, 9))


def test_a_folder_whose_weights_do_not_fit_is_refused(tmp_path):
    model = bert()
    mgpp.prepare(model, mgpp.LoSparse(sparsity=0.5, ratio=0.2))
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["mgpp_low_rank"]["ranks"].pop("bert.encoder.layer.0.output.dense")
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises((ValueError, RuntimeError), match=r"bert\.encoder\.layer\.0\.output\.dense"):
        mgpp.load_pretrained(tmp_path)


def test_a_state_dict_goes_round():
    model, other = Toy(), Toy(seed=5)
    for each in (model, other):
        mgpp.prepare(each, METHOD)
    other.load_state_dict(model.state_dict())
    x = next(batches())["x"]
    assert torch.equal(model(x)["logits"], other(x)["logits"])


def test_layers_that_are_read_but_not_called_are_refused():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    with pytest.raises(ValueError, match=r"self_attn .*exclude="):
        mgpp.prepare(encoder, mgpp.LoSparse(sparsity=0.1))
    with pytest.raises(ValueError, match=r"layers\.0\.linear1 .*exclude="):
        mgpp.prepare(encoder, mgpp.LoSparse(sparsity=0.1), exclude=["*attn*"])
    tied = Toy()
    tied.blocks[1][0].weight = tied.blocks[0][0].weight
    with pytest.raises(ValueError, match=r"shared by blocks\.0\.0 and blocks\.1\.0"):
        mgpp.prepare(tied, mgpp.LoSparse(sparsity=0.1))


def test_globs_choose_the_same_layers_before_and_after():
    model = Toy()
    method = mgpp.LoSparse(**{**RAMP, "sparsity": 0.5})
    pruner = mgpp.Pruner(model, method, total_steps=STEPS, exclude=["blocks.0.*"])
    assert list(pruner.targets) == ["blocks.1.0.weight", "blocks.1.2.weight"]
    assert isinstance(model.blocks[0][0], nn.Linear)
    again = mgpp.Pruner(model, method, total_steps=STEPS, exclude=["blocks.0.*"])
    assert list(again.targets) == list(pruner.targets)


def test_eight_bytes_a_weight_beside_u_and_v():
    model = Toy()
    pruner, optimizer = start(model)
    take_steps(model, optimizer)
    assert pruner.memory.bytes == 8 * NUM_WEIGHTS


def test_the_papers_shape_has_the_papers_ratio():
    """MNLI: ρ = .05 of BERT-base, S to .15: 80% sparse. U and V take 5.1%, for ranks are whole numbers."""
    shapes = [(768, 768)] * 48 + [(3072, 768)] * 24
    added = sum(rank_for(*shape, ratio=0.05) * sum(shape) for shape in shapes)
    assert added / 84_934_656 == pytest.approx(0.0510, abs=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"), [({"ratio": 0.0}, "ratio=0.0"), ({"ratio": 1.0}, "ratio=1.0"), ({"beta1": 1.0}, "beta1")]
)
def test_a_setting_that_makes_no_sense_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        mgpp.LoSparse(**RAMP, **settings)
