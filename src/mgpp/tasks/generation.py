"""How a model writes: its own habits, with the beams and the length that were asked for."""

import copy
from typing import Any

from transformers import GenerationConfig

from mgpp.tasks.pretrained import Pretrained

# What changes the text beside beams and length; told beside the score, for a model may bring it from another task.
_HABITS = ("min_length", "min_new_tokens", "length_penalty", "no_repeat_ngram_size", "repetition_penalty")
_BEAM_ONLY = ("early_stopping", "length_penalty")
_SAMPLING_ONLY = ("temperature", "top_p", "top_k", "typical_p", "min_p", "epsilon_cutoff", "eta_cutoff")


def settle_generation(writer: Pretrained, *, beams: int, target_length: int) -> GenerationConfig:
    """The settings of `writer` (tokens that are forced or forbidden, n-grams not to repeat) with our beams and length.

    What contradicts these is taken out, for transformers does not save a model with it.
    """
    settled = copy.deepcopy(_own_generation(writer))
    shortest = max(settled.min_length or 0, settled.min_new_tokens or 0)
    if shortest > target_length:
        raise ValueError(
            f"generation_config.json of {writer.name} asks for at least {shortest} tokens, and target_length is "
            f"{target_length}: raise it (--target-length), or lower min_length there"
        )
    # The decoder's first token is given, not generated, and counts.
    ours: dict[str, Any] = {"num_beams": beams, "max_length": target_length + 1, "max_new_tokens": None}
    ours |= {"do_sample": False, **dict.fromkeys(_SAMPLING_ONLY)}
    if beams == 1:
        ours |= dict.fromkeys(_BEAM_ONLY)
    for name, value in ours.items():
        setattr(settled, name, value)
    return settled


def describe_generation(settled: GenerationConfig) -> str:
    habits = {name: getattr(settled, name, None) for name in _HABITS}
    own = [f"{name} {value}" for name, value in habits.items() if value not in (None, 0, 1.0)]
    told = f"written with {settled.num_beams} beams"
    return told if not own else f"{told} and the model's own {', '.join(own)}"


def _own_generation(writer: Pretrained) -> GenerationConfig:
    try:
        return GenerationConfig.from_pretrained(writer.name)
    except OSError:  # no generation_config.json
        return GenerationConfig.from_model_config(writer.config)
