"""Scores of predictions against labels, by scikit-learn and scipy."""

import math

import numpy as np
from transformers import EvalPrediction

from mgpp.tasks.extra import require


def classification_metrics(prediction: EvalPrediction) -> dict[str, float]:
    """Accuracy, F1 (of class 1 where there are two, else the classes' mean) and Matthews' correlation."""
    sklearn = require("sklearn.metrics")
    logits, labels = _logits(prediction), prediction.label_ids
    chosen = logits.argmax(axis=-1)
    average = "binary" if logits.shape[-1] == 2 else "macro"
    return {
        "accuracy": float(sklearn.accuracy_score(labels, chosen)),
        "f1": float(sklearn.f1_score(labels, chosen, average=average, zero_division=0)),
        "matthews": float(sklearn.matthews_corrcoef(labels, chosen)),
    }


def regression_metrics(prediction: EvalPrediction) -> dict[str, float]:
    stats = require("scipy.stats")
    scores, labels = _logits(prediction).reshape(-1).astype(np.float64), prediction.label_ids
    if len(scores) < 2 or np.ptp(scores) == 0 or np.ptp(labels) == 0:
        return {"pearson": 0.0, "spearman": 0.0}  # a constant follows nothing; scipy would say NaN, and warn
    return {
        "pearson": _finite(stats.pearsonr(scores, labels).statistic),
        "spearman": _finite(stats.spearmanr(scores, labels).statistic),
    }


def _logits(prediction: EvalPrediction) -> np.ndarray:
    # Encoder-decoder models return hidden states beside the logits.
    outputs = prediction.predictions
    return outputs[0] if isinstance(outputs, tuple) else outputs


def _finite(value: float) -> float:
    return float(value) if math.isfinite(value) else 0.0
