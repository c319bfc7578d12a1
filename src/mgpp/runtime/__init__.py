"""Pruned models that run fast."""

from mgpp.runtime.semi_structured import to_semi_structured

__all__ = ["to_semi_structured"]
