"""A preset in resolved numbers: the whole config of its run, and its ramp in steps."""

from dataclasses import asdict
from typing import Any

from mgpp.presets.preset import OPEN, Preset


def describe(preset: Preset, sparsity: float | None = None) -> dict[str, Any]:
    """Plain JSON; at this sparsity, or at all of the preset's."""
    chosen: list[float | None] = [sparsity] if sparsity is not None else [*preset.sparsities] or [None]
    return {
        "name": preset.name,
        "source": preset.source,
        "why": list(preset.why),
        "examples": preset.examples,
        "sparsities": list(preset.sparsities),
        "named": sorted(preset.named),
        "resolved": [resolved(preset, one) for one in chosen],
    }


def resolved(preset: Preset, sparsity: float | None) -> dict[str, Any]:
    """`length` and `schedule` are None where the number of examples is not known, or nothing is pruned."""
    config, length = preset.config(sparsity), preset.length(sparsity)
    settings = preset.settings(sparsity)
    plain = config.to_dict()
    del plain["output"]
    schedule = None
    sparsity = None if config.method is None else config.method.sparsity or None  # a mask that is held has no ramp
    if config.method is not None and sparsity is not None and length is not None:
        schedule = asdict(config.method.recipe(length).schedule)
    return {
        "sparsity": sparsity,
        "notes": list(settings.notes),
        "config": {**plain, **{name: None for name in OPEN if name not in settings.run}},
        "length": None if length is None else asdict(length),
        "schedule": schedule,
    }
