"""Perplexity, token by token over any number of batches, with no logits kept."""

import math
from typing import Any

import torch
from torch import Tensor
from transformers import EvalPrediction

from mgpp.tasks.task import IGNORED

_LARGEST = 700.0  # e to more than that is no float


class Perplexity:
    """exp of the mean loss over all tokens. Called with every batch; tells, and starts anew, after the last.

    A batch's own loss is a mean, and batches hold different numbers of tokens: each counts with its tokens here.
    """

    def __init__(self, *, shift: int) -> None:
        self._shift = shift
        self._sum, self._tokens = 0.0, 0

    def __call__(self, prediction: EvalPrediction, *, compute_result: bool) -> dict[str, float]:
        labels: Any = prediction.label_ids
        losses: Any = prediction.losses  # the batch's mean, once for every row
        tokens = int((labels[:, self._shift :] != IGNORED).sum())
        self._sum += float(losses.mean()) * tokens
        self._tokens += tokens
        if not compute_result:
            return {}
        loss = self._sum / max(1, self._tokens)
        self._sum, self._tokens = 0.0, 0
        return {"loss": loss, "perplexity": math.exp(min(loss, _LARGEST))}


def nothing(logits: Any, labels: Tensor) -> Tensor:
    """What is kept of a batch's logits."""
    return torch.empty(len(labels), 0, device=labels.device)
