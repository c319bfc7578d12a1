"""Pruned models that run fast: 2:4 layers on a GPU, and on a CPU sparse products, of which `active` names the path."""

from mgpp.runtime.build import NoKernel
from mgpp.runtime.paths import Path, active
from mgpp.runtime.semi_structured import to_semi_structured

__all__ = ["NoKernel", "Path", "active", "to_semi_structured"]
