"""The optimizer of a run: mgpp's own AdamW, or one that the Trainer knows by its name."""

from typing import Any

import torch
from transformers import Trainer, TrainingArguments
from transformers.training_args import OptimizerNames

from mgpp.adamw import AdamW

OWN = "mgpp"

ClassAndSettings = tuple[type[torch.optim.Optimizer], dict[str, Any]]


def name_for_trainer(name: str, *, on_cuda: bool) -> str:
    """What TrainingArguments say. They know nothing of our own, which a Trainer is given beside them."""
    if name == OWN:
        return OptimizerNames.ADAMW_TORCH.value
    if name not in {known.value for known in OptimizerNames}:
        raise ValueError(
            f"optimizer={name}: it must be {OWN}, or a name that transformers' Trainer knows, such as adamw_torch"
        )
    fuses = on_cuda and name == OptimizerNames.ADAMW_TORCH.value
    return OptimizerNames.ADAMW_TORCH_FUSED.value if fuses else name


def own_optimizer(name: str, args: TrainingArguments) -> ClassAndSettings | None:
    """For a Trainer's `optimizer_cls_and_kwargs`; None where it finds one by its name."""
    if name != OWN:
        return None
    return AdamW, {"lr": args.learning_rate, "betas": (args.adam_beta1, args.adam_beta2), "eps": args.adam_epsilon}


def look_at_optimizer(name: str, args: TrainingArguments) -> torch.optim.Optimizer | None:
    """Of one weight, to be looked at: a Trainer would notice what is missing only when the run has begun."""
    try:
        kind, settings = own_optimizer(name, args) or Trainer.get_optimizer_cls_and_kwargs(args)
        return kind([torch.nn.Parameter(torch.zeros(1))], **settings)
    except ImportError as error:
        raise ImportError(f"optimizer={name}: {error}") from None
    except Exception:  # some are made for a model, which is not there yet: theirs is the Trainer's word
        return None
