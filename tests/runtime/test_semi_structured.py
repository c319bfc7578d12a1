"""2:4 layers are found, compressed where the hardware takes them, and compute what they did."""

import copy
import warnings

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaModel,
)
from transformers.pytorch_utils import Conv1D

import mgpp
from mgpp.functional.groups import zero_in_groups_
from mgpp.functional.score import magnitude
from mgpp.functional.structure import Groups
from mgpp.runtime import semi_structured
from mgpp.runtime.semi_structured import is_two_of_four, obstacle, to_semi_structured, two_of_four
from mgpp.targets import find_targets, stored_transposed

on_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

WIDE = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2}
MODELS = {
    "bert": lambda: BertModel(BertConfig(vocab_size=100, **WIDE)),
    "llama": lambda: LlamaModel(LlamaConfig(vocab_size=100, num_key_value_heads=2, **WIDE)),
    "gpt2": lambda: GPT2Model(GPT2Config(vocab_size=100, n_embd=128, n_layer=2, n_head=2)),
}


@torch.no_grad()
def two_to_four_(model: nn.Module) -> nn.Module:
    targets = find_targets(model)
    turned = stored_transposed(model, targets)
    matrices = [weight.t() if i in turned else weight for i, weight in enumerate(targets.values())]
    k = sum(matrix.numel() for matrix in matrices) // 2
    zero_in_groups_(matrices, k, groups=Groups(2, 4), score=magnitude, inputs=[()] * len(matrices))
    return model


@pytest.fixture
def without_hardware(monkeypatch):
    """All but the compression itself."""
    monkeypatch.setattr(semi_structured, "_compress", lambda matrix: matrix.clone())
    monkeypatch.setattr(semi_structured, "_require_gpu", lambda layers: None)


def hidden_states(model: nn.Module, device: str = "cpu") -> torch.Tensor:
    ids = torch.arange(2 * 9, device=device).view(2, 9)
    with torch.no_grad():
        return model(input_ids=ids).last_hidden_state.float()


def test_the_pattern_is_two_of_four_along_the_inputs():
    matrix = torch.tensor([[1.0, 0, 0, 2, 0, 0, 0, 0], [0, 1, 2, 0, 3, 0, 0, 3]])
    assert is_two_of_four(matrix)
    assert not is_two_of_four(matrix.t())
    assert not is_two_of_four(torch.ones(4, 4))
    assert not is_two_of_four(torch.zeros(4, 6))


@pytest.mark.parametrize("name", MODELS)
def test_exactly_the_pruned_layers_are_found_and_compute_the_same(name, without_hardware):
    torch.manual_seed(0)
    model = two_to_four_(MODELS[name]().to(torch.bfloat16)).eval()
    targets = find_targets(model)
    assert {f"{layer}.weight" for layer in two_of_four(model)} == set(targets)
    before = hidden_states(model)
    assert to_semi_structured(model) is model
    assert not any(isinstance(layer, Conv1D) for layer in model.modules())
    torch.testing.assert_close(hidden_states(model), before, rtol=2e-2, atol=2e-2)
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert not model.training


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        (nn.Linear(64, 32), "float32, call model.to"),
        (nn.Linear(64, 40).bfloat16(), "its 40 outputs and 64 inputs are no multiples of 32 and 64"),
        (nn.Linear(96, 32).bfloat16(), "its 32 outputs and 96 inputs"),
        (nn.Linear(64, 32).bfloat16(), None),
        (nn.Linear(64, 32, bias=False).half(), None),
        (Conv1D(32, 64).half(), None),
    ],
)
def test_a_layer_that_the_hardware_does_not_take_is_told_why(layer, told):
    found = obstacle(nn.Sequential(layer), "0")
    assert (found is None) if told is None else (told in found)


def test_a_weight_that_another_module_reads_stays_dense():
    encoder = nn.TransformerEncoderLayer(64, 2, 128, dtype=torch.bfloat16)
    assert "reads its weight by itself" in obstacle(nn.Sequential(encoder), "0.linear1")
    assert "reads its weight by itself" in obstacle(encoder, "self_attn.out_proj")


def test_a_layer_that_does_not_fit_is_named_once_and_the_others_are_compressed(without_hardware):
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 40), nn.Linear(40, 3)).bfloat16()
    for layer in model:
        layer.weight.data.unflatten(1, (-1, 4))[..., :2] = 0
    model[2].weight.data.fill_(1)
    with pytest.warns(UserWarning, match="1 is 2:4 and stays dense: its 40 outputs") as told:
        to_semi_structured(model)
    assert len(told) == 1


def test_a_weight_shared_by_two_layers_is_compressed_once(without_hardware):
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)).bfloat16()
    model[0].weight.data.unflatten(1, (-1, 4))[..., 1:3] = 0
    model[1].weight = model[0].weight
    to_semi_structured(model)
    assert model[0].weight is model[1].weight


def test_what_cannot_be_is_refused_with_the_cure():
    dense = nn.Sequential(nn.Linear(64, 64)).bfloat16()
    with pytest.raises(ValueError, match='prune it with structure="2:4" first'):
        to_semi_structured(dense)
    dense[0].weight.data.zero_()
    with pytest.raises(ValueError, match=r"0 lies on cpu.*model\.to\('cuda'\)"):
        to_semi_structured(dense)


def test_where_no_layer_fits_nothing_is_changed(without_hardware):
    model = nn.Sequential(nn.Linear(64, 64))
    model[0].weight.data.zero_()
    with pytest.raises(ValueError, match="none of the 1 layers that are 2:4 can be compressed; 0: its weight is torch"):
        to_semi_structured(model)
    assert model.training


class TestOnAGpu:
    pytestmark = on_gpu

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("name", MODELS)
    def test_the_hardware_takes_the_pattern_and_computes_what_the_dense_model_did(self, name, dtype):
        torch.manual_seed(0)
        dense = two_to_four_(MODELS[name]().cuda().to(dtype)).eval()
        sparse = copy.deepcopy(dense)
        matrices = {layer: semi_structured._as_matrix(found).clone() for layer, found in two_of_four(dense).items()}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            to_semi_structured(sparse)
        assert len(matrices) == len(find_targets(dense))
        for layer, matrix in matrices.items():
            weight = sparse.get_submodule(layer).weight
            assert isinstance(weight, torch.sparse.SparseSemiStructuredTensor)
            torch.testing.assert_close(weight.detach().to_dense(), matrix, rtol=0, atol=0)
        expected = hidden_states(dense, "cuda")
        error = (hidden_states(sparse, "cuda") - expected).square().mean().sqrt() / expected.std()
        assert error < 4 * torch.finfo(dtype).eps

    def test_a_model_pruned_by_the_method_is_accepted_whole(self):
        torch.manual_seed(0)
        model = BertForSequenceClassification(BertConfig(vocab_size=100, **WIDE)).cuda()
        method = mgpp.MGPP(structure="2:4", start=2, end=6, every=2)
        pruner = mgpp.Pruner(model, method, total_steps=8, train_size=100)
        optimizer = mgpp.AdamW(model.parameters(), lr=1e-3)
        pruner.attach(optimizer)
        ids = torch.randint(5, 100, (4, 16), device="cuda")
        for _ in range(8):
            model(input_ids=ids, labels=torch.zeros(4, dtype=torch.long, device="cuda")).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        pruner.detach()
        assert pruner.sparsity == 0.5
        to_semi_structured(model.to(torch.bfloat16))
        kind = torch.sparse.SparseSemiStructuredTensor
        compressed = [layer for layer in model.modules() if isinstance(getattr(layer, "weight", None), kind)]
        assert len(compressed) == len(pruner.targets)

    @pytest.mark.parametrize("tokens", [1, 7, 64, 1000])
    def test_any_number_of_tokens(self, tokens):
        layer = nn.Linear(256, 128).cuda().bfloat16()
        layer.weight.data.unflatten(1, (-1, 4))[..., 1:3] = 0
        x = torch.randn(tokens, 256, device="cuda", dtype=torch.bfloat16)
        expected = layer(x).detach()
        model = to_semi_structured(nn.Sequential(layer))
        torch.testing.assert_close(model(x), expected, rtol=2e-2, atol=2e-2)
