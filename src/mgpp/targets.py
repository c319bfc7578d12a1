"""Which weights of which model are pruned.

The weight matrices of the Linear layers (and GPT-2's Conv1D) inside the repeated blocks of the transformer body, and
the stacks of matrices that stand there in the place of many Linear layers: the experts of a mixture. That one rule
leaves out all that should stay dense: embeddings and the projections beside them, relative positions, LayerNorm,
biases, routers' tables, pooler and every task head stand outside the blocks, or are no Linear matrix. No architecture
is named here, so a new one needs no new code; tests/test_stacks.py lists what the rule finds in all of transformers.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from mgpp.layers import LowRankSparse

_LINEAR = (nn.Linear, Conv1D, LowRankSparse)
# The one child of a module that torch.compile or activation checkpointing has wrapped, at any depth of the model.
_WRAPPED_ANYWHERE = ("_orig_mod", "_checkpoint_wrapped_module")
# DDP and DataParallel wrap only the whole model, and deeper down "module" may be somebody's own name.
_WRAPPED_WHOLE = ("module", *_WRAPPED_ANYWHERE)


def find_targets(
    model: nn.Module, *, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> dict[str, nn.Parameter]:
    """The weights to prune, {name: parameter} in the model's order, a shared weight once under its first name.

    `include` and `exclude` are shell-style globs on full parameter names. `include` replaces the rule: it chooses
    among the Linear weights of the whole model, heads too, and the stacks in its blocks. `exclude` removes from the
    outcome. Frozen weights are left out: whoever froze them wants them as they are. A weight tied to an embedding is
    never a target: a zero in the output matrix would also be a hole in a token's vector.
    """
    model = unwrap(model)
    if getattr(model, "peft_config", None) or getattr(model, "_hf_peft_config_loaded", False):
        # The adapter's small matrices are the only trainable ones: zeros in them are no zeros of the model.
        raise ValueError("the model carries a PEFT adapter: merge it first (model.merge_and_unload()), then prune")
    everything = _linear_weights(model)
    if include:
        chosen = _matching(everything, include, option="include")
    else:
        chosen = _in_blocks(model, everything)
    if exclude:
        dropped = _matching(chosen, exclude, option="exclude")
        if len(dropped) == len(chosen):
            raise ValueError(f"exclude={exclude!r} removes all {len(chosen)} weights: leave some to prune")
        chosen = {name: weight for name, weight in chosen.items() if name not in dropped}
    trainable = {name: weight for name, weight in chosen.items() if weight.requires_grad}
    if not trainable:
        raise ValueError(
            f"all {len(chosen)} weights to prune are frozen (requires_grad=False), among them {_shortened(chosen)}: "
            "call model.requires_grad_(True), or unfreeze the layers to prune"
        )
    return trainable


def stored_transposed(model: nn.Module, targets: Mapping[str, nn.Parameter]) -> frozenset[int]:
    """Which targets, by position, their layer keeps as inputs × outputs: Conv1D's. A Linear's are outputs × inputs."""
    turned = {id(module.weight) for module in model.modules() if isinstance(module, Conv1D)}
    return frozenset(i for i, weight in enumerate(targets.values()) if id(weight) in turned)


def stacks_of(model: nn.Module) -> Iterator[nn.Parameter]:
    """The stacks of matrices in the model's blocks: experts' weights."""
    for block in _blocks(model):
        for module in block.modules():
            yield from _own_stacks(module)


def count_parameters(model: nn.Module) -> int:
    """All parameters of the model, frozen ones too, a tied one once."""
    return sum(parameter.numel() for parameter in model.parameters())


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside DDP and torch.compile, however nested: a name must not depend on how the model is run."""
    children = dict(model.named_children())
    for name in _WRAPPED_WHOLE:
        if set(children) == {name}:
            return unwrap(children[name])
    return model


def as_glob(name: str) -> str:
    """bert.encoder.layer.3.output.dense.weight → bert.encoder.layer.*.output.dense.weight"""
    return re.sub(r"(?<![^.])\d+(?=\.)", "*", name)


def _linear_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    embedded = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding | nn.EmbeddingBag)}
    wanted = {id(weight) for module in model.modules() for weight in _own_matrices(module)}
    # Outside the blocks a table (of positions, by row and column) may look like a stack: only its place tells them.
    wanted |= {id(weight) for weight in stacks_of(model)}
    wanted -= embedded
    return {plain_name(name): weight for name, weight in model.named_parameters() if id(weight) in wanted}


def _own_matrices(module: nn.Module) -> Iterator[nn.Parameter]:
    # nn.MultiheadAttention keeps its query, key and value matrices as bare parameters (in_proj_weight, or q_, k_ and
    # v_proj_weight). They are Linear weights in all but class, a quarter of a PyTorch encoder: left out, a stated
    # sparsity would mean something else there than in BERT.
    if isinstance(module, (*_LINEAR, nn.MultiheadAttention)):
        for name, parameter in module.named_parameters(recurse=False):
            if name.endswith("weight"):
                yield parameter


def _own_stacks(module: nn.Module) -> list[nn.Parameter]:
    """The stacks of matrices that `module` itself holds: a matrix for each expert.

    A stack is a bare parameter of three dimensions, each more than 1, so no token, scale or table of positions. The
    module is no class of torch.nn, so no convolution. Below it there are only vectors, a norm's: a mixer has layers
    beside its state parameters. And its own tables are biases, a row for each matrix: those of an attention that keeps
    a matrix as inputs × heads × size are not.
    """
    own = [parameter for parameter in module._parameters.values() if parameter is not None]
    stacks = [parameter for parameter in own if _is_stack_of_matrices(parameter)]
    if not stacks or any(base.__module__.startswith("torch.nn.") for base in _bases(module)):
        return []
    tables = [parameter for parameter in own if len(_shape(parameter)) == 2]
    are_biases = all(_shape(table)[0] == _shape(stack)[0] for table in tables for stack in stacks)
    below = [parameter for child in module.children() for parameter in child.parameters()]
    return stacks if are_biases and all(len(_shape(parameter)) == 1 for parameter in below) else []


def _is_stack_of_matrices(parameter: nn.Parameter) -> bool:
    shape = _shape(parameter)
    return len(shape) == 3 and min(shape) > 1 and parameter.is_floating_point()


def _shape(parameter: nn.Parameter) -> Sequence[int]:
    return getattr(parameter, "ds_shape", parameter.shape)  # between steps ZeRO 3 leaves it only there


def _bases(module: nn.Module) -> list[type]:
    return [base for base in type(module).__mro__ if base is not nn.Module]


def _in_blocks(model: nn.Module, weights: Mapping[str, nn.Parameter]) -> dict[str, nn.Parameter]:
    wanted = {id(weight) for block in _blocks(model) for module in block.modules() for weight in _own_matrices(module)}
    wanted |= {id(weight) for weight in stacks_of(model)}
    found = {name: weight for name, weight in weights.items() if id(weight) in wanted}
    if found:
        return found
    kind = type(model).__name__
    if not weights:
        raise ValueError(f"{kind} has no Linear weight, and nothing else is pruned: give a transformer")
    raise ValueError(
        f"found no repeated transformer blocks with Linear layers in {kind}: pass include= with globs on the weights "
        f"to prune, it has {_shortened(weights)}"
    )


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    # A task head stands beside base_model, so it is never entered; nor is that of a model held by another.
    if isinstance(module, PreTrainedModel):
        module = module.base_model
    stacked = _is_stack(module)
    for child in module.children():
        if stacked and not _is_one_layer(child) and not _holds_pretrained(child):
            yield child
        else:
            yield from _blocks(child)


def _is_stack(module: nn.Module) -> bool:
    """Blocks are kept in a ModuleList; a Sequential is a stack when it repeats one class of block (timm, minGPT)."""
    if isinstance(module, nn.ModuleList):
        return True
    kinds = {type(child) for child in module.children()}
    return isinstance(module, nn.Sequential) and len(module) > 1 and len(kinds) == 1 and kinds != {nn.Sequential}


def _is_one_layer(module: nn.Module) -> bool:
    """A list of these is no list of blocks: task heads are often kept so."""
    return isinstance(module, _LINEAR) or bool(_own_stacks(module))


def _holds_pretrained(module: nn.Module) -> bool:
    """True for a whole model in a list (two towers): its pooler and its embeddings' projection are no block."""
    return any(isinstance(inner, PreTrainedModel) for inner in module.modules())


def plain_name(name: str) -> str:
    """A block that was compiled or checkpointed by itself keeps the name that it has in a checkpoint."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPED_ANYWHERE)


def _matching(weights: Mapping[str, nn.Parameter], patterns: Sequence[str], *, option: str) -> dict[str, nn.Parameter]:
    matched: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        names = {name for name in weights if fnmatchcase(name, pattern)}
        if not names:
            # A tied lm_head is the usual surprise: it is in the model, yet not among the names.
            cause = "; a weight tied to an embedding is never pruned" if option == "include" else ""
            raise ValueError(
                f"{option}={pattern!r} matches none of the {len(weights)} weights to choose from{cause}: "
                f"correct it or drop it, the names are {_shortened(weights)}"
            )
        matched |= names
    return {name: weight for name, weight in weights.items() if name in matched}


def _shortened(names: Iterable[str], limit: int = 8) -> str:
    """A few names in full, many as globs: 72 names of BERT are 6 kinds, and each glob is a pattern to copy."""
    shown = list(names)
    if len(shown) > limit:
        shown = list(dict.fromkeys(as_glob(name) for name in shown))
    more = f" and {len(shown) - limit} more" if len(shown) > limit else ""
    return ", ".join(shown[:limit]) + more
