"""Methods × sparsities × seeds on one task and model: every cell a run of its own, in one folder."""

from mgpp.compare.grid import Comparison
from mgpp.compare.orchestrate import compare

__all__ = ["Comparison", "compare"]
