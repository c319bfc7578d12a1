"""Prune pretrained transformers while they fine-tune, with a mixture Gaussian prior."""

from typing import TYPE_CHECKING

from mgpp.lazy import lazily

if TYPE_CHECKING:
    from mgpp.adamw import AdamW
    from mgpp.artifact import load_sparse, save_sparse
    from mgpp.distillation import DistillationTrainer
    from mgpp.layers import LowRankSparse, load_pretrained, merge_
    from mgpp.methods import (
        GMP,
        ITP,
        L2,
        MGPP,
        OBERT,
        PLATON,
        HoldMask,
        LoSparse,
        Movement,
        Prior,
        PriorAnnealing,
        SoftMovement,
    )
    from mgpp.methods.recommended import recommended
    from mgpp.optim import SGHMC, SGLD
    from mgpp.preparation import prepare
    from mgpp.pruner import Pruner
    from mgpp.runtime import accelerate, to_semi_structured
    from mgpp.sampler import GradientSampler
    from mgpp.trainer import PruningCallback

__all__ = [
    "GMP",
    "ITP",
    "L2",
    "MGPP",
    "OBERT",
    "PLATON",
    "SGHMC",
    "SGLD",
    "AdamW",
    "DistillationTrainer",
    "GradientSampler",
    "HoldMask",
    "LoSparse",
    "LowRankSparse",
    "Movement",
    "Prior",
    "PriorAnnealing",
    "Pruner",
    "PruningCallback",
    "SoftMovement",
    "accelerate",
    "load_pretrained",
    "load_sparse",
    "merge_",
    "prepare",
    "recommended",
    "save_sparse",
    "to_semi_structured",
]

if not TYPE_CHECKING:  # which would let any name pass
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "adamw": ["AdamW"],
            "artifact": ["load_sparse", "save_sparse"],
            "distillation": ["DistillationTrainer"],
            "layers": ["LowRankSparse", "load_pretrained", "merge_"],
            "methods": [
                *("GMP", "ITP", "L2", "MGPP", "OBERT", "PLATON", "HoldMask", "LoSparse", "Movement"),
                *("Prior", "PriorAnnealing", "SoftMovement", "recommended"),
            ],
            "optim": ["SGHMC", "SGLD"],
            "preparation": ["prepare"],
            "pruner": ["Pruner"],
            "runtime": ["accelerate", "to_semi_structured"],
            "sampler": ["GradientSampler"],
            "trainer": ["PruningCallback"],
        },
    )
