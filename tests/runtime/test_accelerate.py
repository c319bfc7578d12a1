"""mgpp.accelerate on whole models: the same outputs, and every layer in the place where it should be."""

import copy

import pytest
import torch
from torch import nn
from transformers import (
    AlbertConfig,
    AlbertModel,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5Model,
)

import mgpp
from mgpp.runtime import SparseLinear, active, choice, densify, summary, swap
from mgpp.targets import find_targets
from tests.runtime.matrices import relative_error

SMALL = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def zeroed(model: nn.Module, sparsity: float = 0.9) -> nn.Module:
    with torch.no_grad():
        for weight in find_targets(model).values():
            cut = weight.abs().flatten().kthvalue(max(1, int(sparsity * weight.numel()))).values
            weight.mul_(weight.abs() > cut)
    return model.eval()


def bert() -> nn.Module:
    return zeroed(BertForSequenceClassification(BertConfig(**SMALL)))


def gpt2() -> nn.Module:
    return zeroed(GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=2)))


def albert() -> nn.Module:
    return zeroed(AlbertModel(AlbertConfig(**SMALL, embedding_size=16)))


def t5() -> nn.Module:
    config = T5Config(vocab_size=50, d_model=32, d_ff=64, d_kv=16, num_layers=2, num_heads=2, decoder_start_token_id=0)
    return zeroed(T5Model(config))


@torch.inference_mode()
def outputs(model: nn.Module, batch: int = 2, length: int = 7) -> torch.Tensor:
    ids = torch.arange(batch * length).view(batch, length) % 50
    more = {"decoder_input_ids": ids} if isinstance(model, T5Model) else {}
    return model(input_ids=ids, **more)[0]


def sparse_names(model: nn.Module) -> list[str]:
    return [name for name, layer in model.named_modules() if isinstance(layer, SparseLinear)]


@pytest.mark.parametrize("path", ["auto", "csr"])
@pytest.mark.parametrize("make", [bert, gpt2, albert, t5])
def test_a_model_gives_the_same_outputs_for_any_batch_and_length(make, path):
    model = make()
    sizes = [(1, 1), (2, 7), (3, 43), (1, 128)]
    expected = [outputs(model, *size) for size in sizes]
    pruned = sum(weight.numel() > 0 for weight in find_targets(model).values())
    assert mgpp.accelerate(model, least_gain=0, path=path) is model
    assert len(sparse_names(model)) == pruned
    for size, wanted in zip(sizes, expected, strict=True):
        assert relative_error(outputs(model, *size), wanted) < 1e-5


def test_heads_and_embeddings_stay_as_they_are():
    model = mgpp.accelerate(bert(), least_gain=0)
    assert type(model.classifier) is nn.Linear
    assert type(model.bert.pooler.dense) is nn.Linear
    assert summary(model).sparse_layers == 12
    assert summary(model).dense_layers == 2


def test_a_layer_that_is_faster_dense_stays_dense(monkeypatch):
    monkeypatch.setattr(swap, "gain", lambda dense, sparse, tokens: 3.0 if dense.out_features == 64 else 1.05)
    model = mgpp.accelerate(bert())
    assert sparse_names(model) == [f"bert.encoder.layer.{i}.intermediate.dense" for i in (0, 1)]


def test_a_shape_and_density_is_measured_once(monkeypatch):
    measured = []
    monkeypatch.setattr(choice, "_known", {})
    monkeypatch.setattr(choice, "_measured", lambda dense, sparse, tokens: measured.append(tokens) or 2.0)
    model = mgpp.accelerate(bert(), tokens=64)
    assert len(sparse_names(model)) == 12
    assert measured == [64] * 3  # 32×32, 64×32, 32×64
    mgpp.accelerate(bert(), tokens=64)
    assert len(measured) == 3
    mgpp.accelerate(bert(), tokens=1)
    assert len(measured) == 6


def test_the_measurement_is_a_ratio_of_times(monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr(choice.time, "perf_counter", lambda: next(clock))
    layer = nn.Linear(8, 8).requires_grad_(False)
    assert choice._measured(layer, SparseLinear.replacing(layer, path="csr"), 2) == 1.0


def test_if_no_layer_wins_a_warning_says_so(monkeypatch):
    monkeypatch.setattr(swap, "gain", lambda dense, sparse, tokens: 0.9)
    with pytest.warns(UserWarning, match="no layer of BertForSequenceClassification is faster sparse"):
        assert sparse_names(mgpp.accelerate(bert())) == []


def test_a_second_time_nothing_is_left_to_do_and_nothing_is_said(recwarn):
    model = mgpp.accelerate(bert(), least_gain=0)
    names = sparse_names(model)
    assert sparse_names(mgpp.accelerate(model, least_gain=0)) == names
    assert not [warning for warning in recwarn if "dense" in str(warning.message)]


def test_a_model_that_is_not_pruned_is_refused():
    with pytest.raises(ValueError, match="no Linear layer of BertForSequenceClassification has 25% zeros"):
        mgpp.accelerate(BertForSequenceClassification(BertConfig(**SMALL)))


def test_another_dtype_is_refused_with_the_cure():
    with pytest.raises(ValueError, match=r"is torch.bfloat16 on cpu: .* model.float\(\).cpu\(\)"):
        mgpp.accelerate(bert().to(torch.bfloat16))


def test_the_model_is_frozen_and_in_eval_mode():
    model = mgpp.accelerate(bert().train(), least_gain=0)
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    model(input_ids=torch.ones(1, 3, dtype=torch.long))  # no inference_mode needed


def test_a_saved_model_is_a_plain_checkpoint(tmp_path):
    model = bert()
    expected = outputs(model)
    mgpp.accelerate(model, least_gain=0).save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert torch.equal(outputs(loaded), expected)


def test_plain_layers_can_be_put_back():
    model = gpt2()
    expected, state = outputs(model), copy.deepcopy(model.state_dict())
    densify(mgpp.accelerate(model, least_gain=0))
    assert sparse_names(model) == []
    assert torch.equal(outputs(model), expected)
    assert list(model.state_dict()) == list(state)


def test_a_whole_model_is_copied_and_saved(tmp_path):
    model = mgpp.accelerate(bert(), least_gain=0)
    expected = outputs(model)
    assert torch.equal(outputs(copy.deepcopy(model)), expected)
    torch.save(model, tmp_path / "model.pt")
    assert torch.equal(outputs(torch.load(tmp_path / "model.pt", weights_only=False)), expected)


def test_weights_that_somebody_else_holds_or_reads_stay_dense():
    model = nn.ModuleDict(
        {
            "tied": nn.Linear(8, 8),
            "twin": nn.Linear(8, 8),
            "hooked": nn.Linear(8, 8),
            "encoder": nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
            "free": nn.Linear(8, 8),
        }
    )
    model["twin"].weight = model["tied"].weight
    model["hooked"].register_forward_hook(lambda module, args, output: output + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert sparse_names(mgpp.accelerate(model, least_gain=0)) == ["free"]


def test_a_layer_under_two_names_is_one_sparse_layer():
    layer = nn.Linear(8, 8)
    nn.init.zeros_(layer.weight)
    model = mgpp.accelerate(nn.ModuleDict({"a": layer, "b": layer}), least_gain=0)
    assert model["a"] is model["b"]
    assert isinstance(model["a"], SparseLinear)
    densify(model)
    assert model["a"] is model["b"]


def test_the_summary_names_the_path_and_the_sizes():
    made = summary(mgpp.accelerate(bert(), least_gain=0, path="csr"))
    assert made.path == str(active("csr"))
    assert made.replaced_bytes == 4 * 2 * (4 * 32 * 32 + 2 * 32 * 64)
    assert made.density == pytest.approx(0.1, abs=0.01)
    assert "12 layers sparse (10." in str(made)


def test_the_name_of_a_model_is_refused_with_the_cure():
    with pytest.raises(TypeError, match=r"'out' is no model: load it first"):
        mgpp.accelerate("out")


def test_a_number_of_tokens_below_one_is_refused():
    with pytest.raises(ValueError, match="tokens=0: at least 1"):
        mgpp.accelerate(bert(), tokens=0)
