"""Prune pretrained transformers while they fine-tune, with a mixture Gaussian prior."""

from mgpp.methods import GMP, L2, MGPP
from mgpp.pruner import Pruner
from mgpp.trainer import PruningCallback

__all__ = ["GMP", "L2", "MGPP", "Pruner", "PruningCallback"]
