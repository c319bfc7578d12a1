"""A stack of models computes what each of them computes alone."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

pytestmark = pytest.mark.usefixtures("lab")


def small(kind: str, **more):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = AutoConfig.for_model(kind, vocab_size=50, max_position_embeddings=40, num_labels=3, **sizes, **more)
    return AutoModelForSequenceClassification.from_config(config).eval()


# As DeBERTa-v3's own configs have them; with few buckets the far distances share some.
DEBERTA = {
    "relative_attention": True,
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "type_vocab_size": 0,
    "pooler_hidden_size": 32,
    "layer_norm_eps": 1e-7,
}
FAMILIES = [
    ("bert", {}),
    ("mpnet", {"pad_token_id": 1}),
    ("deberta-v2", {"position_buckets": 64, **DEBERTA}),
    ("deberta-v2", {"position_buckets": 12, **DEBERTA}),
]


@pytest.mark.parametrize("width", [4, 16, 32])
@pytest.mark.parametrize(("kind", "more"), FAMILIES)
def test_a_stack_gives_each_model_its_own_outputs_and_gradients(kind, more, width):
    from stack import Stack

    torch.manual_seed(0)
    models = [small(kind, **more) for _ in range(3)]
    for param in (param for model in models for param in model.parameters() if param.ndim == 1):
        torch.nn.init.normal_(param, 1.0, 0.3)  # as they are drawn, norms and biases would show no mistake
    ids = torch.randint(2, 50, (3, 4, width))
    mask = torch.ones_like(ids)
    mask[:, 1, 20:], mask[:, 2, 3:] = 0, 0
    ids[mask == 0] = models[0].config.pad_token_id
    types = torch.randint(0, 2, ids.shape) if kind == "bert" else None
    expected, grads = [], []
    for i, model in enumerate(models):
        extra = {} if types is None else {"token_type_ids": types[i]}
        logits = model(input_ids=ids[i], attention_mask=mask[i], **extra).logits
        logits.square().sum().backward()
        expected.append(logits.detach())
        grads.append({name: param.grad for name, param in model.named_parameters() if param.grad is not None})
    stack = Stack(models)
    logits = stack.logits(ids, mask, types, training=False)
    stack.backward(logits.square().sum())
    torch.testing.assert_close(logits, torch.stack(expected), rtol=1e-5, atol=1e-6)
    for model, alone in zip(models, grads, strict=True):
        for name, grad in alone.items():
            torch.testing.assert_close(model.get_parameter(name).grad, grad, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize(("kind", "more"), FAMILIES)
def test_half_as_precise_and_on_a_gpu_recorded_gradients_point_the_same_way(kind, more, device, request):
    from stack import Stack

    request.addfinalizer(lambda: torch.backends.cuda.enable_cudnn_sdp(True))
    torch.backends.cuda.enable_cudnn_sdp(False)  # as in work.py
    torch.manual_seed(0)
    models = [small(kind, **more).to(device) for _ in range(2)]
    ids = torch.randint(2, 50, (2, 4, 16), device=device)
    mask = torch.ones_like(ids)
    mask[:, 1, 9:] = 0
    for model, rows, seen in zip(models, ids, mask, strict=True):
        model(input_ids=rows, attention_mask=seen).logits.square().sum().backward()
    expected = [torch.cat([grad_of(param) for param in model.parameters()]) for model in models]
    stack = Stack(models)
    stack.dtype = torch.bfloat16

    def step() -> None:
        stack.backward(stack.logits(ids, mask, None, training=False).square().sum())

    step()
    if device.type == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        torch._foreach_zero_([param.grad for model in models for param in model.parameters()])
        graph.replay()
    for model, alone in zip(models, expected, strict=True):
        together = torch.cat([grad_of(param) for param in model.parameters()])
        assert torch.cosine_similarity(together, alone, dim=0) > 0.999


def grad_of(param: torch.nn.Parameter) -> torch.Tensor:
    return torch.zeros(param.numel(), device=param.device) if param.grad is None else param.grad.clone().flatten()


def test_a_config_that_is_not_built_is_refused_by_its_option():
    from stack import Stack

    model = small("deberta-v2", position_buckets=12, **{**DEBERTA, "share_att_key": False})
    with pytest.raises(ValueError, match="share_att_key=False of deberta-v2 cannot be stacked, only True"):
        Stack([model])


def test_a_stack_of_low_rank_layers_computes_with_all_of_their_parts():
    from stack import Stack

    from mgpp.layers import factorize_
    from mgpp.targets import find_targets

    torch.manual_seed(0)
    models = [small("bert") for _ in range(2)]
    ids = torch.randint(2, 50, (2, 4, 8))
    expected = torch.stack([model(input_ids=rows).logits for model, rows in zip(models, ids, strict=True)])
    for model in models:
        factorize_(model, find_targets(model), ratio=0.3)
    stack = Stack(models)
    logits = stack.logits(ids, torch.ones_like(ids), None, training=False)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    stack.backward(logits.square().sum())
    assert all(
        param.grad.any()
        for model in models
        for name, param in model.named_parameters()
        if "left" in name or "right" in name
    )
