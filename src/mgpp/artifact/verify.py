"""What is in a folder: told from its headers, or read and held against the model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mgpp.artifact.encoding import bits_of
from mgpp.artifact.load import read_tensor
from mgpp.artifact.model import tensors_of
from mgpp.artifact.save import summarise
from mgpp.artifact.shards import close, open_files
from mgpp.targets import unwrap


@dataclass(frozen=True, kw_only=True)
class Check:
    """One tensor: the same to the bit, or how far from the model's; and its zeros as they were stored."""

    exact: bool
    max_error: float
    zeros: int


def verify(folder: Path, model: nn.Module) -> dict[str, Check]:
    """Every tensor in the folder against the model's, one at a time."""
    tensors = tensors_of(unwrap(model)).tensors
    opened = open_files(folder)
    try:
        return {
            name: _check(read_tensor(reader, name, record), tensors[name].detach().cpu().contiguous())
            for reader, layout in opened
            for name, record in layout.records.items()
        }
    finally:
        close(opened)


def describe(folder: str | Path) -> dict[str, Any]:
    """What the headers say, without reading a weight; `kept` is None for a tensor that is stored whole."""
    folder = Path(folder).expanduser()
    opened = open_files(folder)
    close(opened)
    layouts = {reader.path.name: layout for reader, layout in opened}
    records = {name: record for layout in layouts.values() for name, record in layout.records.items()}
    return {
        **summarise(folder, layouts),
        "stored": sorted({record.stored for record in records.values()}),
        "zstd": any(part.zstd for record in records.values() for part in record.parts.values()),
        "kept": {name: record.kept for name, record in records.items()},
    }


def _check(found: torch.Tensor, expected: torch.Tensor) -> Check:
    zeros = found.numel() - int(found.count_nonzero())
    if torch.equal(bits_of(found), bits_of(expected)):
        return Check(exact=True, max_error=0.0, zeros=zeros)
    error = (found.double() - expected.double()).abs()
    error[(found == expected) | (found.isnan() & expected.isnan())] = 0  # infinities, and NaNs that stay NaNs
    return Check(exact=False, max_error=float(error.max()), zeros=zeros)
