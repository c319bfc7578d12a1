"""What a run's result.json says, and on what machine it was measured."""

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from mgpp.version import mgpp_version


def count_zeros(targets: Mapping[str, nn.Parameter]) -> dict[str, int]:
    return {name: weight.numel() - int(torch.count_nonzero(weight)) for name, weight in targets.items()}


def sparsity_of(targets: Mapping[str, nn.Parameter]) -> dict[str, Any]:
    """Counted from the weights as they are."""
    zeros = count_zeros(targets)
    prunable = sum(weight.numel() for weight in targets.values())
    return {
        "sparsity": sum(zeros.values()) / prunable if prunable else 0.0,
        "zeros": sum(zeros.values()),
        "prunable": prunable,
    }


def emptied(targets: Mapping[str, nn.Parameter]) -> list[str]:
    """The matrices of which nothing is left."""
    return [name for name, weight in targets.items() if weight.numel() and not weight.count_nonzero()]


def provenance() -> dict[str, Any]:
    return {
        "versions": {
            "mgpp": mgpp_version(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "commit": _commit(),
        "hardware": {
            "machine": platform.machine(),
            "processor": _processor(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
    }


def _commit() -> str | None:
    """Of the checkout that this runs from; MGPP_COMMIT says it where the files were copied without their history."""
    if told := os.environ.get("MGPP_COMMIT"):
        return told
    here = Path(__file__)
    try:
        for question in (["ls-files", "--error-unmatch", here.name], ["rev-parse", "HEAD"]):
            git = ["git", "-C", str(here.parent), *question]
            answer = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
