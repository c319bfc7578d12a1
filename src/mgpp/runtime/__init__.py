"""Pruned models that run fast: `accelerate` on a CPU, by the path `active` names; `to_semi_structured` on a GPU."""

from mgpp.compiler import NoKernel
from mgpp.runtime.layer import SparseLinear
from mgpp.runtime.memory import keep_memory
from mgpp.runtime.paths import Path, active
from mgpp.runtime.semi_structured import to_semi_structured
from mgpp.runtime.swap import Summary, accelerate, densify, summary

__all__ = [
    "NoKernel",
    "Path",
    "SparseLinear",
    "Summary",
    "accelerate",
    "active",
    "densify",
    "keep_memory",
    "summary",
    "to_semi_structured",
]
