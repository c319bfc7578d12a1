"""Experts kept as stacks of matrices are pruned: what the rule finds in transformers' models, judged kind by kind."""

import re
import warnings
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import torch
import transformers
from torch import nn
from transformers import CONFIG_MAPPING, MODEL_MAPPING, PreTrainedModel
from transformers.models.auto.configuration_auto import model_type_to_module_name

from mgpp.targets import _blocks, find_targets, stacks_of

# What the rule takes, by kind. Each of them is a matrix of a Linear layer, once for every expert, head or codebook.
PRUNED = {
    "*experts.gate_up_proj": "experts, gate and up in one",
    "*experts.gate_proj": "shared experts",
    "*experts.up_proj": "experts without a gate, shared experts",
    "*experts.down_proj": "experts",
    "*experts.fc[12].weight": "experts (Aria, in older versions)",
    "*.input_linear.weight": "experts of the feed-forward layer and of the attention (JetMoe)",
    "*.output_linear.weight": "the same, back",
    "*.rg_lru.*_gate_weight": "block-diagonal Linear layers, a block a head (RecurrentGemma); its Λ is a vector",
    "*.dense.weight": "grouped Linear layers (ConvBERT)",
    "*.linear.weight": "a Linear layer for each codebook (Moshi's depth decoder)",
}
# What has three dimensions or more in a block, is no layer of torch.nn, and stays dense.
DENSE = {
    "*.rel_attn.[qkvor]": "XLNet's attention: inputs × heads × size, one matrix and no stack",
    "*.r_kernel": "Funnel's projection of positions, likewise",
    "*.seg_embed": "embeddings",
    "*.A_log": "state parameters",
    "*.mamba.*_proj_weight": "Zamba's projections into its state, in the mixer beside A_log",
    "*token": "learned tokens",
    "*tokens": "learned tokens",
    "*position*": "positions",
    "*.emb_rel_[kv]": "relative positions",
    "*scale*": "scales",
    "*alpha*": "scales",
    "*.time_mix_*": "scales",
    "*.gru_rel_pos_const": "scales",
    "*.grn.*": "a norm",
    "*.glu.b[12]": "biases",
}
# A bare parameter that is made with three dimensions or more, the first not 1.
MADE = re.compile(r"Parameter\(\s*torch\.\w+\(\s*[\[(]?(?!\s*1,)[^()\[\]]+?,[^()\[\],]+,")
# Some have such weights only when asked, or cannot be made from their own defaults.
ASKED = {
    "convbert": {"num_groups": 2},
    "gemma4_text": {"enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 64},
    "hunyuan_v1_moe": {"head_dim": 32, "num_experts": 4},
    "lfm2_moe": {"layer_types": ["full_attention"] * 32},
}


def model_types() -> Iterator[str]:
    """All whose source makes such a parameter. The others were gone through once, with the same outcome: none."""
    sources = (Path(transformers.__file__).parent / "models").glob("*/modeling_*.py")
    folders = {path.parent.name for path in sources if MADE.search(path.read_text(encoding="utf-8"))}
    yield from (kind for kind in CONFIG_MAPPING if model_type_to_module_name(kind) in folders)


def build(kind: str) -> PreTrainedModel | None:
    # A default config may lack what its model needs, or an extra package, and not every type has a model of its own.
    try:
        config = CONFIG_MAPPING[kind](**ASKED.get(kind, {}))
        kinds = MODEL_MAPPING[type(config)]
        with torch.device("meta"):
            return (kinds if isinstance(kinds, type) else kinds[0])(config)
    except Exception:
        return None


def bare_in_blocks(model: nn.Module) -> dict[str, nn.Parameter]:
    """What has three dimensions or more and is held by no class of torch.nn."""
    held = set()
    for module in (module for block in _blocks(model) for module in block.modules()):
        if not any(base.__module__.startswith("torch.nn.") for base in type(module).__mro__ if base is not nn.Module):
            held |= {id(parameter) for parameter in module._parameters.values()}
    return {name: weight for name, weight in model.named_parameters() if weight.ndim > 2 and id(weight) in held}


def unjudged(names: dict[str, set[str]], kinds: dict[str, str]) -> list[str]:
    return [
        f"{model}: {name}"
        for model, found in names.items()
        for name in sorted(found)
        if not any(fnmatchcase(f".{name}", kind) for kind in kinds)
    ]


@pytest.fixture(scope="module")
def walked() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """What is pruned and what is left in each type of model, of all that has three dimensions in its blocks."""
    pruned, left = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in model_types():
            model = build(kind)
            if model is not None:
                targets = find_targets(model)
                pruned[kind] = {name for name, weight in targets.items() if weight.ndim > 2}
                left[kind] = bare_in_blocks(model).keys() - pruned[kind]
    return pruned, left


def test_every_stack_that_is_pruned_is_of_a_judged_kind(walked) -> None:
    pruned, _ = walked
    assert unjudged(pruned, PRUNED) == []
    assert unjudged(pruned, DENSE) == [f"{kind}: {name}" for kind, names in pruned.items() for name in sorted(names)]


def test_everything_else_of_three_dimensions_in_a_block_is_judged_to_stay_dense(walked) -> None:
    _, left = walked
    assert unjudged(left, DENSE) == []


def test_nearly_all_mixtures_of_experts_are_among_them(walked) -> None:
    pruned, _ = walked
    with_experts = {kind for kind, names in pruned.items() if any("experts" in name for name in names)}
    known = "mixtral qwen2_moe qwen3_moe olmoe deepseek_v2 deepseek_v3 gpt_oss granitemoe phimoe llama4_text jamba"
    assert set(known.split()) <= with_experts
    assert len(with_experts) >= 40
    assert {"jetmoe", "recurrent_gemma", "convbert"} <= {kind for kind, names in pruned.items() if names}
    assert not any(pruned[kind] for kind in ("xlnet", "funnel", "zamba"))


# The rule, by hand


class Experts(nn.Module):
    def __init__(self, count: int = 3, *, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(count, 6, 4))
        self.up_bias = nn.Parameter(torch.zeros(count, 6))
        self.down = nn.Parameter(torch.randn(count, 4, 6))
        if norm is not None:
            self.norm = norm


class Router(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))


class Kernel(nn.Conv1d):
    """Somebody's own convolution."""


class Table(nn.Module):
    def __init__(self, *shape: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(shape, dtype=dtype), requires_grad=dtype.is_floating_point)


def body(*parts: nn.Module) -> nn.ModuleList:
    dense = nn.Linear(4, 4)
    return nn.ModuleList([nn.ModuleDict({"dense": dense, **{str(i): part for i, part in enumerate(parts)}})])


@pytest.mark.parametrize("norm", [None, nn.LayerNorm(4)], ids=["alone", "with a norm"])
def test_experts_are_pruned_and_their_biases_and_router_are_not(norm) -> None:
    targets = find_targets(body(Experts(norm=norm), Router()))
    assert list(targets) == ["0.dense.weight", "0.0.up", "0.0.down"]


@pytest.mark.parametrize(
    "part",
    [
        Experts(norm=nn.Linear(4, 4)),  # a mixer that has layers of its own
        Kernel(4, 4, 3),
        Table(1, 5, 4),  # positions
        Table(4, 1, 1),  # a scale
        Table(2, 3, 4, 5),
        Table(2, 3, 4, dtype=torch.int8),  # quantised
    ],
    ids=["mixer", "convolution", "positions", "scale", "four dimensions", "integers"],
)
def test_what_only_looks_like_a_stack_is_not_pruned(part) -> None:
    assert not [name for name in find_targets(body(part)) if name.startswith("0.0.") and "norm" not in name]


def test_a_table_whose_rows_are_no_experts_speaks_against_a_stack() -> None:
    attention = Experts()
    attention.up_bias = nn.Parameter(torch.zeros(2, 6))
    assert list(find_targets(body(attention))) == ["0.dense.weight"]


def test_stacks_outside_the_blocks_stay_dense_whatever_is_included() -> None:
    model = nn.ModuleDict({"positions": Table(3, 5, 4), "blocks": body(Experts()), "heads": nn.ModuleList([Experts()])})
    assert list(find_targets(model)) == ["blocks.0.dense.weight", "blocks.0.0.up", "blocks.0.0.down"]
    assert list(find_targets(model, include=["*"])) == list(find_targets(model))
    assert list(find_targets(model, include=["*.up"])) == ["blocks.0.0.up"]


def test_a_frozen_stack_is_left_out() -> None:
    model = body(Experts())
    model[0]["0"].up.requires_grad_(False)
    assert list(find_targets(model)) == ["0.dense.weight", "0.0.down"]
    assert len(list(stacks_of(model))) == 2
