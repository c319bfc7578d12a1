"""Tiny models of many kinds, with 80% of their prunable weights zero."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)

from mgpp.targets import find_targets

_SHAPE: dict[str, Any] = {
    "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 64,
}  # fmt: skip
_DEBERTA: dict[str, Any] = {
    "relative_attention": True, "position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
}  # fmt: skip
_BART: dict[str, Any] = {
    "vocab_size": 50, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 64,
}  # fmt: skip
_T5: dict[str, Any] = {"vocab_size": 50, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}

MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "bert": lambda: BertForSequenceClassification(BertConfig(**_SHAPE, num_labels=3)),
    "bert, tied": lambda: BertForMaskedLM(BertConfig(**_SHAPE)),
    "deberta": lambda: DebertaV2ForSequenceClassification(DebertaV2Config(**_SHAPE, **_DEBERTA)),
    "gpt2, tied": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=64, bos_token_id=1, eos_token_id=2)
    ),
    "llama, bf16": lambda: LlamaForCausalLM._from_config(LlamaConfig(**_SHAPE), dtype=torch.bfloat16),
    "t5, tied": lambda: T5ForConditionalGeneration(T5Config(**_T5)),
    "bart, tied": lambda: BartForConditionalGeneration(BartConfig(**_BART)),
    "mixtral": lambda: MixtralForCausalLM(MixtralConfig(**_SHAPE, num_local_experts=2, num_key_value_heads=2)),
}


def make(kind: str = "bert", *, seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    model = MODELS[kind]().eval()
    zero_out(model)
    return model


@torch.no_grad()
def zero_out(model: nn.Module, share: float = 0.8) -> None:
    for weight in find_targets(model).values():
        weight[torch.rand(weight.shape) < share] = 0


def inputs_of(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    ids = torch.randint(4, 50, (2, 7))
    more = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **more}
