"""The kernel's attention is torch's to rounding, and is there only where it can be."""

import copy
import pickle
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import (
    AutoModel,
    BartConfig,
    BartModel,
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaModel,
    T5Config,
    T5Model,
)
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function, sdpa_mask

import mgpp
from mgpp.runtime import NoKernel, attention, build, densify, summary
from mgpp.targets import find_targets
from tests.runtime.matrices import relative_error

# batch, heads, heads of keys, queries, keys, dimensions of a head
SIZES = [
    (1, 1, 1, 1, 1, 4), (1, 2, 2, 8, 8, 32), (2, 3, 3, 16, 17, 12), (3, 4, 2, 33, 5, 64), (1, 6, 1, 64, 70, 20),
    (2, 2, 2, 65, 64, 128), (1, 2, 2, 130, 131, 36), (1, 2, 1, 97, 300, 8),
]  # fmt: skip


def projections(batch: int, heads: int, groups: int, queries: int, keys: int, dim: int) -> tuple[torch.Tensor, ...]:
    """As a model has them: heads lie side by side in each token."""
    shapes = (queries, heads), (keys, groups), (keys, groups)
    return tuple(
        torch.randn(batch, tokens, of * dim).view(batch, tokens, of, dim).transpose(1, 2) for tokens, of in shapes
    )


def by_torch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    of_each = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(of_each, 1), v.repeat_interleave(of_each, 1)
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).transpose(1, 2)


def masks(batch: int, queries: int, keys: int) -> list[torch.Tensor | None]:
    seen = torch.rand(batch, 1, 1, keys) < 0.7
    seen[..., 0] = True
    added = torch.randn(batch, 1, 1, keys)
    return [None, seen, seen[:1], added, seen.expand(-1, 1, queries, -1), added.expand(batch, 1, queries, keys)]


@pytest.mark.parametrize("sizes", SIZES)
def test_the_kernel_is_torchs_attention(kernel, sizes):
    q, k, v = projections(*sizes)
    for mask in masks(sizes[0], sizes[3], sizes[4]):
        for scale in (sizes[5] ** -0.5, 3.0):
            found = kernel.attend(q, k, v, mask, scale)
            assert found.is_contiguous()
            wide = mask.double() if mask is not None and mask.is_floating_point() else mask
            exact = by_torch(q.double(), k.double(), v.double(), wide, scale)
            torchs = by_torch(q, k, v, mask, scale)
            assert (found - exact).abs().max() <= 4 * (torchs - exact).abs().max() + 1e-6


def test_inputs_may_lie_anywhere_but_for_a_heads_own_numbers(compiled):
    q, k, v = torch.randn(3, 2, 4, 20, 24)
    expected = by_torch(q, k, v, None, 0.3)
    whole = torch.stack([q, k, v], 3)  # neighbours of other roles between the tokens
    torch.testing.assert_close(compiled.attend(*whole.unbind(3), None, 0.3), expected)
    torch.testing.assert_close(compiled.attend(q.contiguous(), k, v, None, 0.3), expected)


def test_large_scores_do_not_overflow_and_far_ones_count_for_nothing(compiled):
    q, k, v = (100 * part for part in projections(1, 2, 2, 40, 50, 16))
    torch.testing.assert_close(compiled.attend(q, k, v, None, 1.0), by_torch(q, k, v, None, 1.0))


def test_what_sees_nothing_has_nothing_and_what_is_not_a_number_is_passed_on(compiled):
    q, k, v = projections(2, 1, 1, 20, 20, 8)
    nothing = torch.ones(2, 1, 1, 20, dtype=torch.bool)
    nothing[1] = False
    q[0, 0, 3, 5], k[0, 0, 4, 2] = float("nan"), 0.0
    found, expected = compiled.attend(q, k, v, nothing, 1.0), by_torch(q, k, v, nothing, 1.0)
    assert found[1].count_nonzero() == 0
    assert found[0, 3].isnan().all()
    torch.testing.assert_close(found, expected, equal_nan=True)
    v[0, 0, 7, 1] = float("inf")
    torch.testing.assert_close(compiled.attend(q, k, v, None, 1.0), by_torch(q, k, v, None, 1.0), equal_nan=True)


def test_many_threads_do_what_one_does(compiled):
    q, k, v = projections(3, 5, 5, 70, 40, 16)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = compiled.attend(q, k, v, None, 0.25)
        for threads in (2, 3, 7, 64):
            torch.set_num_threads(threads)
            assert torch.equal(compiled.attend(q, k, v, None, 0.25), alone), threads
    finally:
        torch.set_num_threads(before)


def test_a_kernel_whose_attention_is_wrong_is_refused(compiled, monkeypatch):
    monkeypatch.setattr(build.Kernel, "attend", lambda self, q, *rest: torch.zeros_like(q).transpose(1, 2))
    with pytest.raises(NoKernel, match="wrong numbers"):
        build.build("native")


class Counting:
    """The kernel, which counts how often it is asked."""

    def __init__(self, kernel: build.Kernel) -> None:
        self.kernel, self.calls = kernel, 0

    def attend(self, *given):
        self.calls += 1
        return self.kernel.attend(*given)


@pytest.fixture
def counting(compiled, monkeypatch):
    counts = Counting(compiled)
    monkeypatch.setattr(attention, "_loaded", lambda: counts)
    return counts


SEES_ALL, SEES_BEFORE = SimpleNamespace(is_causal=False), SimpleNamespace(is_causal=True)


def test_attention_is_the_kernels_where_it_fits(counting):
    q, k, v = projections(2, 4, 4, 20, 20, 16)
    for mask in masks(2, 20, 20):
        found, weights = attention.attend(SEES_ALL, q, k, v, mask)
        torch.testing.assert_close(found, by_torch(q, k, v, mask, 0.25))
        assert weights is None
    assert counting.calls == len(masks(2, 20, 20))
    attention.attend(SEES_BEFORE, q, k, v, None, is_causal=False, position_bias=None, output_attentions=False)
    assert counting.calls == len(masks(2, 20, 20)) + 1


@pytest.mark.parametrize("may_skip", [True, False])
@pytest.mark.parametrize("function", [bidirectional_mask_function, causal_mask_function])
def test_a_mask_is_torchs_and_that_of_padding_is_made_once_for_all_queries(function, may_skip):
    asked = {"batch_size": 2, "q_length": 9, "kv_length": 9, "mask_function": function, "allow_is_causal_skip": False}
    asked["allow_is_bidirectional_skip"] = may_skip
    for lengths in ((9, 4), (9, 9)):
        asked["attention_mask"] = torch.arange(9) < torch.tensor(lengths)[:, None]
        found, expected = attention.mask_of(**asked), sdpa_mask(**asked)
        assert (found is None) == (expected is None)
        assert found is None or torch.equal(found, expected)
        assert found is None or (found.stride(2) == 0) == (function is bidirectional_mask_function)


def causal(q: torch.Tensor) -> torch.Tensor:
    return torch.ones(1, 1, q.shape[2], q.shape[2], dtype=torch.bool).tril()


@pytest.mark.parametrize(
    ("what", "given"),
    [
        ("a query that sees no later key", lambda q: {"module": SEES_BEFORE}),
        ("a mask of each query's own", lambda q: {"attention_mask": causal(q)}),
        ("a mask of each head's own", lambda q: {"attention_mask": torch.randn(1, 4, 1, 20)}),
        ("dropout", lambda q: {"dropout": 0.5}),
        ("a bias of the places", lambda q: {"position_bias": torch.randn(1, 4, 20, 20)}),
        ("a gradient", lambda q: {"query": q.clone().requires_grad_()}),
        ("half precision", lambda q: {name: q.bfloat16() for name in ("query", "key", "value")}),
        ("few queries", lambda q: {"query": q[:, :, :7]}),
        ("a head of six dimensions", lambda q: dict.fromkeys(("query", "key", "value"), q[..., :6])),
        ("dimensions that lie apart", lambda q: {"value": q.transpose(2, 3).contiguous().transpose(2, 3)}),
        ("values wider than keys", lambda q: {"value": torch.cat([q, q], 3)}),
    ],
)
def test_what_the_kernel_has_no_room_for_is_torchs(counting, what, given):
    q = torch.randn(2, 4, 20, 16)
    asked = {"module": SEES_ALL, "query": q, "key": q, "value": q, "attention_mask": None} | given(q)
    torch.manual_seed(1)
    found = attention.attend(**asked)[0]
    torch.manual_seed(1)
    expected = attention.sdpa_attention_forward(**asked)[0]
    assert torch.equal(found, expected), what
    assert counting.calls == 0


def test_a_mask_of_another_batch_is_refused_as_by_torch(counting):
    q = torch.randn(2, 4, 20, 16)
    with pytest.raises(RuntimeError, match="size"):
        attention.attend(SEES_ALL, q, q, q, torch.ones(3, 1, 1, 20, dtype=torch.bool))


SMALL = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
BART = {
    "vocab_size": 50,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
BART |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "decoder_start_token_id": 2}
T5 = {
    "vocab_size": 50,
    "d_model": 32,
    "d_ff": 64,
    "d_kv": 16,
    "num_layers": 2,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}
# How often the kernel is asked in one pass: in an encoder's two layers, in a decoder's where it looks at the encoder.
MODELS = {
    "bert": (lambda: BertModel(BertConfig(**SMALL)), 2),
    "llama": (lambda: LlamaModel(LlamaConfig(**SMALL)), 0),
    "bart": (lambda: BartModel(BartConfig(**BART)), 4),
    "t5": (lambda: T5Model(T5Config(**T5)), 0),
}


def made(name: str) -> nn.Module:
    model = MODELS[name][0]().eval()
    with torch.no_grad():
        for weight in find_targets(model).values():
            weight.mul_(torch.rand_like(weight) < 0.1)
    return model


@torch.inference_mode()
def outputs(model: nn.Module, lengths: tuple[int, ...] = (30, 11, 24)) -> torch.Tensor:
    """Of padded rows, without their padding."""
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    ids = torch.arange(mask.numel()).view(mask.shape) % 50
    more = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    return model(input_ids=ids, attention_mask=mask, **more)[0][mask.bool()]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_outputs_it_had(counting, name):
    model = made(name)
    expected = outputs(model)
    mgpp.accelerate(model, least_gain=0)
    assert summary(model).fast_attention
    assert ", attention by the kernel; path" in str(summary(model))
    assert relative_error(outputs(model), expected) < 1e-5
    assert counting.calls == MODELS[name][1]
    densify(model)
    assert not summary(model).fast_attention
    assert model.config._attn_implementation == "sdpa"
    assert relative_error(outputs(model), expected) < 1e-6
    assert counting.calls == MODELS[name][1]


def test_a_copy_and_a_pickle_have_it_and_a_saved_model_has_not(counting, tmp_path):
    model = mgpp.accelerate(made("bert"), least_gain=0)
    expected = outputs(model)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        counting.calls = 0
        assert torch.equal(outputs(other), expected)
        assert counting.calls == 2
    model.save_pretrained(tmp_path)
    assert "mgpp" not in (tmp_path / "config.json").read_text(encoding="utf-8")
    plain = AutoModel.from_pretrained(tmp_path).eval()
    assert plain.config._attn_implementation == "sdpa"
    assert relative_error(outputs(plain), expected) < 1e-5


def test_a_model_inside_another_module_has_it_too(counting):
    inside = made("bert")
    model = mgpp.accelerate(nn.ModuleDict({"encoder": inside, "head": nn.Linear(32, 2)}), least_gain=0)
    outputs(inside)
    assert counting.calls == 2
    densify(model)
    assert inside.config._attn_implementation == "sdpa"


def test_attention_that_is_not_torchs_stays_what_it_is(counting):
    model = made("bert")
    model.set_attn_implementation("eager")
    mgpp.accelerate(model, least_gain=0)
    outputs(model)
    assert model.config._attn_implementation == "eager"
    assert counting.calls == 0


def test_attention_that_is_no_faster_here_stays_torchs(compiled, monkeypatch):
    asked = []
    monkeypatch.setattr(attention, "gain", lambda tokens: asked.append(tokens) or 1.05)
    assert summary(mgpp.accelerate(made("bert"), tokens=96, least_gain=0)).fast_attention
    monkeypatch.setattr("mgpp.runtime.swap.gain", lambda *layers, tokens: 2.0)
    assert not summary(mgpp.accelerate(made("bert"), tokens=96)).fast_attention
    assert asked == [96, 96]


def test_the_gain_is_measured_once_for_a_number_of_tokens_and_threads(fresh, compiled, monkeypatch):
    assert attention.gain(16) > 0
    monkeypatch.setattr(attention, "kernel", None)
    assert attention.gain(16) > 0
    with pytest.raises(TypeError):
        attention.gain(17)


def test_without_the_kernel_attention_is_torchs(fresh, monkeypatch):
    model = mgpp.accelerate(made("bert"), least_gain=0, path="csr")
    assert not summary(model).fast_attention
    monkeypatch.setenv("MGPP_COMPILE", "0")  # as where a pickled model comes to
    model.set_attn_implementation(attention.NAME)
    expected = outputs(densify(copy.deepcopy(model)))
    assert relative_error(outputs(model), expected) < 1e-5
