"""How a model writes: its own habits, with the beams and the length that were asked for."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers import EncoderDecoderCache, GenerationConfig

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


@contextmanager
def reads_in_place(model: Any) -> Iterator[None]:
    """Inside, a beam search of `model` leaves in place what its decoder reads of the encoder.

    All beams of a text read the same, and transformers copies it at every token, with the beams' own past: of a text of
    512 tokens and a summary of 128 that is four fifths of the copy and more. A model with a way of its own keeps it.
    """
    if hasattr(model, "_reorder_cache"):
        yield
        return
    model._reorder_cache = _reorder  # `generate` asks the model for it
    try:
        yield
    finally:
        del model._reorder_cache


def _reorder(cache: Any, beams: Any) -> Any:
    own = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
    own.reorder_cache(beams)
    return cache


def _own_generation(writer: Pretrained) -> GenerationConfig:
    try:
        return GenerationConfig.from_pretrained(writer.name)
    except OSError:  # no generation_config.json
        return GenerationConfig.from_model_config(writer.config)
