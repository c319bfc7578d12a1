"""Which weights are pruned: counts by hand from the config's sizes, on real architectures."""

from collections.abc import Iterator

import pytest
import torch
import transformers
from torch import nn
from transformers import (
    AlbertConfig,
    AlbertModel,
    BartConfig,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    EncoderDecoderModel,
    GemmaConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MPNetConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    RobertaConfig,
    T5Config,
    ViTConfig,
)

from mgpp.targets import as_glob, count_parameters, find_targets

VOCAB, H, FFN, LAYERS, HEADS = 50, 24, 40, 3, 2
SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": H,
    "intermediate_size": FFN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
KV_HEADS, HEAD_DIM = 1, 8
GROUPED = {**SMALL, "num_key_value_heads": KV_HEADS}
SEQ2SEQ = {
    "vocab_size": VOCAB,
    "d_model": H,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_ffn_dim": FFN,
    "decoder_ffn_dim": 56,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
T5 = {"vocab_size": VOCAB, "d_model": H, "d_ff": FFN, "d_kv": 6, "num_heads": 2, "num_layers": 3, "pad_token_id": 0}

ENCODER = LAYERS * (4 * H * H + 2 * H * FFN)
ENCODER_DECODER = 3 * (4 * H * H + 2 * H * FFN) + 2 * (8 * H * H + 2 * H * 56)
T5_INNER = 2 * 6
T5_ENCODER = 3 * (4 * H * T5_INNER + 2 * H * FFN)
T5_DECODER = 2 * (8 * H * T5_INNER + 2 * H * FFN)


def decoder_only(head_dim: int) -> int:
    attention = 2 * H * HEADS * head_dim + 2 * H * KV_HEADS * head_dim
    return LAYERS * (attention + 3 * H * FFN)


# (prefix of the class names, their endings, config, weights by hand)
FAMILIES: list[tuple[str, str, PreTrainedConfig, int]] = [
    ("Bert", "Model ForSequenceClassification ForQuestionAnswering ForMaskedLM", BertConfig(**SMALL), ENCODER),
    ("Roberta", "Model ForSequenceClassification ForQuestionAnswering ForMaskedLM", RobertaConfig(**SMALL), ENCODER),
    ("MPNet", "Model ForSequenceClassification ForQuestionAnswering ForMaskedLM", MPNetConfig(**SMALL), ENCODER),
    (
        "DebertaV2",
        "Model ForSequenceClassification ForQuestionAnswering ForMaskedLM",
        DebertaV2Config(
            **SMALL,
            relative_attention=True,
            position_buckets=8,
            share_att_key=True,
            pos_att_type=["p2c", "c2p"],
            norm_rel_ebd="layer_norm",
        ),
        ENCODER,
    ),
    (
        "DebertaV2",
        "Model ForSequenceClassification",
        # Without shared keys every layer has two matrices more: they project the positions, and are no embeddings.
        DebertaV2Config(**SMALL, relative_attention=True, pos_att_type=["p2c", "c2p"], conv_kernel_size=3),
        ENCODER + LAYERS * 2 * H * H,
    ),
    (
        "DistilBert",
        "Model ForSequenceClassification ForQuestionAnswering ForMaskedLM",
        DistilBertConfig(vocab_size=VOCAB, dim=H, hidden_dim=FFN, n_layers=LAYERS, n_heads=HEADS),
        ENCODER,
    ),
    (
        "Electra",
        "Model ForSequenceClassification ForQuestionAnswering ForMaskedLM ForPreTraining",
        ElectraConfig(**SMALL, embedding_size=10),
        ENCODER,
    ),
    (
        "Albert",
        "Model ForSequenceClassification ForQuestionAnswering ForMaskedLM",
        AlbertConfig(**SMALL, embedding_size=10, num_hidden_groups=1),
        4 * H * H + 2 * H * FFN,
    ),
    (
        "Bart",
        "Model ForSequenceClassification ForQuestionAnswering ForConditionalGeneration",
        BartConfig(**SEQ2SEQ),
        ENCODER_DECODER,
    ),
    ("Marian", "Model MTModel", MarianConfig(**SEQ2SEQ), ENCODER_DECODER),
    (
        "T5",
        "Model ForConditionalGeneration ForSequenceClassification ForQuestionAnswering",
        T5Config(**T5, num_decoder_layers=2),
        T5_ENCODER + T5_DECODER,
    ),
    ("T5", "EncoderModel ForTokenClassification", T5Config(**T5), T5_ENCODER),
    (
        "T5",
        "Model ForConditionalGeneration",
        T5Config(**T5, num_decoder_layers=2, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
        T5_ENCODER + T5_DECODER + 5 * H * FFN,
    ),
    (
        "GPT2",
        "Model LMHeadModel ForSequenceClassification ForQuestionAnswering",
        GPT2Config(vocab_size=VOCAB, n_embd=H, n_layer=LAYERS, n_head=HEADS, n_positions=16),
        LAYERS * 12 * H * H,
    ),
    (
        "Llama",
        "Model ForCausalLM ForSequenceClassification ForQuestionAnswering",
        LlamaConfig(**GROUPED),
        decoder_only(H // HEADS),
    ),
    ("Qwen2", "Model ForCausalLM ForSequenceClassification", Qwen2Config(**GROUPED), decoder_only(H // HEADS)),
    (
        "Qwen3",
        "Model ForCausalLM ForSequenceClassification",
        Qwen3Config(**GROUPED, head_dim=HEAD_DIM),
        decoder_only(HEAD_DIM),
    ),
    (
        "Gemma",
        "Model ForCausalLM ForSequenceClassification",
        GemmaConfig(**GROUPED, head_dim=HEAD_DIM),
        decoder_only(HEAD_DIM),
    ),
    (
        "ViT",
        "Model ForImageClassification",
        ViTConfig(
            hidden_size=H,
            intermediate_size=FFN,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            image_size=8,
            patch_size=4,
        ),
        ENCODER,
    ),
]
CASES = [
    pytest.param(prefix + ending, config, count, id=f"{prefix}{ending}-{count}")
    for prefix, endings, config, count in FAMILIES
    for ending in endings.split()
]
OUTSIDE = ("embed", "pooler", "classifi", "qa_outputs", "lm_head", "predictions", "score", "norm", "rel_", "bias")


def count(targets: dict[str, nn.Parameter]) -> int:
    return sum(weight.numel() for weight in targets.values())


def small_bert() -> BertForSequenceClassification:
    return BertForSequenceClassification(BertConfig(**SMALL))


@pytest.mark.parametrize(("architecture", "config", "expected"), CASES)
def test_the_body_is_pruned_and_the_head_is_not(architecture: str, config: PreTrainedConfig, expected: int) -> None:
    model = getattr(transformers, architecture)(config)
    targets = find_targets(model)
    assert count(targets) == expected
    assert all(weight.ndim == 2 for weight in targets.values())
    assert not [name for name in targets if any(word in name.lower() for word in OUTSIDE)]


@pytest.mark.parametrize(
    ("architecture", "config", "expected"),
    [
        ("BertModel", BertConfig(), 84_934_656),
        ("MPNetModel", MPNetConfig(), 84_934_656),
        (
            "DebertaV2ForSequenceClassification",
            DebertaV2Config(
                vocab_size=128_100,
                hidden_size=768,
                num_hidden_layers=12,
                num_attention_heads=12,
                intermediate_size=3072,
                relative_attention=True,
                position_buckets=256,
                share_att_key=True,
                norm_rel_ebd="layer_norm",
                pos_att_type=["p2c", "c2p"],
            ),
            84_934_656,
        ),
        (
            "BertModel",
            BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536),
            10_616_832,
        ),
        ("BartForConditionalGeneration", BartConfig(), 352_321_536),
        ("LlamaForCausalLM", LlamaConfig(), 6_476_005_376),
    ],
    ids=["bert-base", "mpnet-base", "deberta-v3-base", "minilm-l6-h384", "bart-large", "llama-7b"],
)
def test_published_sizes_give_the_papers_counts(architecture: str, config: PreTrainedConfig, expected: int) -> None:
    with torch.device("meta"):
        model = getattr(transformers, architecture)(config)
    assert count(find_targets(model)) == expected


def test_targets_are_the_models_own_parameters_in_its_order() -> None:
    model = small_bert()
    own = dict(model.named_parameters())
    targets = find_targets(model)
    assert list(targets) == [name for name in own if name in targets]
    assert all(targets[name] is own[name] for name in targets)
    assert next(iter(targets)) == "bert.encoder.layer.0.attention.self.query.weight"


def test_a_single_block_is_still_a_body() -> None:
    model = BertModel(BertConfig(**{**SMALL, "num_hidden_layers": 1}))
    assert count(find_targets(model)) == ENCODER // LAYERS


def test_albert_has_one_set_of_weights_for_each_group_however_deep_it_is() -> None:
    config = AlbertConfig(**SMALL, embedding_size=10, num_hidden_groups=2, inner_group_num=2)
    assert count(find_targets(AlbertModel(config))) == 2 * 2 * (4 * H * H + 2 * H * FFN)


def test_gpt2_conv1d_weights_are_named_as_in_the_checkpoint() -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_embd=H, n_layer=1, n_head=2, n_positions=16))
    assert [name.removeprefix("transformer.h.0.") for name in find_targets(model)] == [
        "attn.c_attn.weight",
        "attn.c_proj.weight",
        "mlp.c_fc.weight",
        "mlp.c_proj.weight",
    ]


def test_a_model_made_of_two_models_is_pruned_in_both_bodies_only() -> None:
    encoder = BertModel(BertConfig(**SMALL))
    decoder = transformers.BertLMHeadModel(BertConfig(**SMALL, is_decoder=True, add_cross_attention=True))
    targets = find_targets(EncoderDecoderModel(encoder=encoder, decoder=decoder))
    assert count(targets) == 2 * ENCODER + LAYERS * 4 * H * H
    assert not [name for name in targets if "pooler" in name or "predictions" in name]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(H)
        self.up = nn.Linear(H, FFN)
        self.down = nn.Linear(FFN, H)


class Plain(nn.Module):
    """A transformer that is no transformers model: an embedding, a stack, two heads."""

    def __init__(self, stack: nn.Module) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, H)
        self.project = nn.Linear(H, H)
        self.stack = stack
        self.heads = nn.ModuleList([nn.Linear(H, 2), nn.Linear(H, 3)])


@pytest.mark.parametrize("stack", [nn.ModuleList, lambda blocks: nn.Sequential(*blocks)], ids=["list", "sequential"])
def test_a_plain_module_is_pruned_in_its_stack_of_blocks(stack: type[nn.ModuleList]) -> None:
    targets = find_targets(Plain(stack([Block(), Block()])))
    assert list(targets) == ["stack.0.up.weight", "stack.0.down.weight", "stack.1.up.weight", "stack.1.down.weight"]


def test_pytorchs_own_encoder_counts_its_packed_query_key_value_matrix() -> None:
    model = Plain(nn.TransformerEncoder(nn.TransformerEncoderLayer(H, HEADS, FFN), LAYERS, enable_nested_tensor=False))
    targets = find_targets(model)
    assert count(targets) == ENCODER
    assert targets["stack.layers.0.self_attn.in_proj_weight"].shape == (3 * H, H)


def test_pytorchs_attention_with_separate_query_key_value_matrices_counts_them_all() -> None:
    blocks = nn.ModuleList([nn.ModuleDict({"attention": nn.MultiheadAttention(H, HEADS, kdim=10, vdim=6)})])
    assert count(find_targets(blocks)) == 2 * H * H + 10 * H + 6 * H


class WithAdapter(nn.Linear):
    def __init__(self) -> None:
        super().__init__(H, H)
        self.adapter_a = nn.Parameter(torch.zeros(2, H))


def test_only_the_weight_of_a_linear_layer_is_pruned_whatever_a_subclass_adds() -> None:
    block = nn.ModuleDict({"dense": WithAdapter()})
    assert list(find_targets(nn.ModuleList([block]))) == ["0.dense.weight"]


class ManyTasks(transformers.BertPreTrainedModel):
    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.heads = nn.ModuleList([Block(), Block()])
        self.post_init()


def test_a_task_head_is_not_pruned_even_when_it_is_a_stack_of_blocks() -> None:
    targets = find_targets(ManyTasks(BertConfig(**SMALL)))
    assert count(targets) == ENCODER
    assert all(name.startswith("bert.encoder.layer.") for name in targets)


class TwoTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.towers = nn.ModuleList([BertModel(BertConfig(**SMALL)), small_bert()])
        self.match = nn.Linear(2 * H, 2)


def test_a_list_of_whole_models_is_not_a_stack_of_blocks() -> None:
    targets = find_targets(TwoTowers())
    assert count(targets) == 2 * ENCODER
    assert not [name for name in targets if "pooler" in name or "classifier" in name]


def test_a_weight_shared_by_two_blocks_is_one_target() -> None:
    model = Plain(nn.ModuleList([Block(), Block()]))
    model.stack[1].up.weight = model.stack[0].up.weight
    assert list(find_targets(model)) == ["stack.0.up.weight", "stack.0.down.weight", "stack.1.down.weight"]


def test_a_weight_tied_to_an_embedding_is_not_pruned_even_in_a_block() -> None:
    model = Plain(nn.ModuleList([Block(), Block()]))
    model.stack[1].up.weight = model.embedding.weight
    assert "embedding.weight" not in find_targets(model)
    assert len(find_targets(model)) == 3


def test_including_a_tied_head_is_refused_with_the_reason() -> None:
    tied = LlamaForCausalLM(LlamaConfig(**SMALL, tie_word_embeddings=True))
    with pytest.raises(ValueError, match=r"include='lm_head.weight' .* tied to an embedding is never pruned"):
        find_targets(tied, include=["lm_head.weight"])
    free = LlamaForCausalLM(LlamaConfig(**SMALL, tie_word_embeddings=False))
    assert list(find_targets(free, include=["lm_head.weight"])) == ["lm_head.weight"]


def test_frozen_weights_are_left_out() -> None:
    model = small_bert()
    model.bert.encoder.layer[0].requires_grad_(False)
    targets = find_targets(model)
    assert count(targets) == ENCODER * (LAYERS - 1) // LAYERS
    assert not [name for name in targets if ".layer.0." in name]


def test_a_wholly_frozen_body_is_refused_with_the_cure() -> None:
    model = small_bert()
    model.bert.requires_grad_(False)
    with pytest.raises(ValueError, match=r"all 18 weights .* frozen .* model.requires_grad_\(True\)"):
        find_targets(model)


@pytest.fixture
def one_process_group() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("one_process_group")
def test_names_do_not_depend_on_how_the_model_is_wrapped() -> None:
    model = small_bert()
    plain = list(find_targets(model))
    distributed = nn.parallel.DistributedDataParallel(model)
    for wrapped in (
        torch.compile(model),
        nn.DataParallel(model),
        distributed,
        torch.compile(distributed),
        nn.parallel.DistributedDataParallel(torch.compile(model)),
    ):
        targets = find_targets(wrapped)
        assert list(targets) == plain
        assert all(targets[name] is model.get_parameter(name) for name in plain)


def test_names_do_not_depend_on_blocks_being_compiled_one_by_one() -> None:
    model = small_bert()
    plain = list(find_targets(model))
    for index, block in enumerate(model.bert.encoder.layer):
        model.bert.encoder.layer[index] = torch.compile(block)
    assert list(find_targets(model)) == plain


def test_a_compiled_body_under_a_head_is_found() -> None:
    model = small_bert()
    plain = list(find_targets(model))
    model.bert = torch.compile(model.bert)
    assert list(find_targets(model)) == plain


def test_include_replaces_the_rule_and_reaches_the_heads() -> None:
    targets = find_targets(small_bert(), include=["classifier.*", "*.layer.1.output.dense.weight"])
    assert list(targets) == ["bert.encoder.layer.1.output.dense.weight", "classifier.weight"]


def test_include_never_takes_a_bias_or_an_embedding() -> None:
    model = BertForMaskedLM(BertConfig(**SMALL))
    targets = find_targets(model, include=["*"])
    assert count(targets) == ENCODER + H * H  # the head's transform; its decoder is tied to the embedding
    assert not [name for name in targets if name.endswith("bias") or "embedding" in name]


def test_exclude_removes_from_the_outcome() -> None:
    targets = find_targets(small_bert(), exclude=["*.layer.0.*", "*.query.weight"])
    assert count(targets) == (LAYERS - 1) * (3 * H * H + 2 * H * FFN)
    chosen = find_targets(small_bert(), include=["*.query.weight"], exclude=["*.layer.0.*"])
    assert list(chosen) == [f"bert.encoder.layer.{layer}.attention.self.query.weight" for layer in (1, 2)]


def test_patterns_are_case_sensitive_and_see_the_whole_name() -> None:
    for pattern in ("*.QUERY.weight", "query.weight", "*.query"):
        with pytest.raises(ValueError, match="matches none"):
            find_targets(small_bert(), include=[pattern])


def test_one_pattern_may_be_given_as_a_string() -> None:
    assert find_targets(small_bert(), include="*.query.weight").keys() == {
        f"bert.encoder.layer.{layer}.attention.self.query.weight" for layer in range(LAYERS)
    }


@pytest.mark.parametrize("option", ["include", "exclude"])
def test_a_pattern_that_matches_nothing_is_refused_with_the_names(option: str) -> None:
    patterns = ["*.query.weight", "*.qeury.weight"]
    with pytest.raises(ValueError, match="matches none") as caught:
        find_targets(small_bert(), **{option: patterns})
    message = str(caught.value)
    assert f"{option}='*.qeury.weight'" in message
    assert "bert.encoder.layer.*.attention.self.query.weight" in message
    assert len(message) < 700


def test_excluding_what_is_already_frozen_is_no_mistake() -> None:
    model = small_bert()
    model.bert.encoder.layer[0].requires_grad_(False)
    assert list(find_targets(model, exclude=["*.layer.0.*"])) == list(find_targets(model))


def test_excluding_everything_is_refused() -> None:
    with pytest.raises(ValueError, match=r"exclude=\['\*'\] removes all 18 weights"):
        find_targets(small_bert(), exclude=["*"])


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), ["0.weight", "2.weight"]),
        (nn.Sequential(Block()), ["0.up.weight", "0.down.weight"]),
        (nn.Sequential(Block(), nn.Dropout()), ["0.up.weight", "0.down.weight"]),
        (nn.Sequential(nn.Sequential(nn.Linear(4, 8)), nn.Sequential(nn.Linear(8, 2))), ["0.0.weight", "1.0.weight"]),
    ],
    ids=["perceptron", "one-block", "one-block-and-something-else", "body-and-head"],
)
def test_a_model_without_repeated_blocks_is_refused_with_its_linear_layers_and_the_cure(
    model: nn.Module, names: list[str]
) -> None:
    with pytest.raises(ValueError, match=r"no repeated transformer blocks .* pass include= ") as caught:
        find_targets(model)
    assert str(caught.value).endswith(f"it has {', '.join(names)}")
    assert list(find_targets(model, include=names[:1])) == names[:1]


def test_a_long_list_of_names_is_cut() -> None:
    model = nn.ModuleDict({f"part_{index:02}": nn.Linear(2, 2) for index in range(40)})
    with pytest.raises(ValueError, match=r"part_07\.weight and 32 more$"):
        find_targets(model)


def test_a_model_without_linear_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="Conv2d has no Linear weight"):
        find_targets(nn.Conv2d(3, 3, 1))


def test_total_counts_tied_and_frozen_parameters_once() -> None:
    config = GPT2Config(vocab_size=VOCAB, n_embd=H, n_layer=LAYERS, n_head=HEADS, n_positions=16)
    block = 12 * H * H + (3 * H + H + 4 * H + H) + 4 * H
    expected = (VOCAB + 16) * H + LAYERS * block + 2 * H
    with torch.device("meta"):
        unallocated = GPT2LMHeadModel(config)
    for model in (GPT2LMHeadModel(config), unallocated):
        model.transformer.wte.requires_grad_(False)
        assert count_parameters(model) == expected


def test_a_glob_stands_for_the_same_weight_in_every_block() -> None:
    assert as_glob("decoder.block.11.layer.0.q.weight") == "decoder.block.*.layer.*.q.weight"
    assert as_glob("0.fc2.weight") == "*.fc2.weight"


def test_a_model_with_an_adapter_is_refused_until_it_is_merged():
    model = BertModel(BertConfig(num_hidden_layers=1, hidden_size=8, num_attention_heads=2, intermediate_size=16))
    model.peft_config = {"default": object()}
    with pytest.raises(ValueError, match="merge_and_unload"):
        find_targets(model)
