"""Tokenised rows (features.py), padded on the device. Tokens are numbered anew, those that occur alone: the rows of an
embedding that are never looked up never change, and moving them through an optimizer takes half of a small model's
step."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor
from torch.nn import functional as F

BUCKET = 16  # tokens: a batch is padded to a multiple of it
GROUP = 16  # batches: of so many rows those of like length go together
UNLABELLED = "unlabelled"  # the part that only a teacher answers
HELD_OUT = 0.1  # of the train set, to choose settings on


@dataclass(frozen=True)
class Rows:
    ids: Tensor
    types: Tensor | None
    labels: Tensor
    lengths: np.ndarray
    padding: int
    tokens: Tensor  # what the ids stand for in the model's own vocabulary

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def is_regression(self) -> bool:
        return self.labels.dtype.is_floating_point

    def take(self, chosen: np.ndarray) -> "Rows":
        rows = torch.as_tensor(chosen, device=self.ids.device)
        types = None if self.types is None else self.types[rows]
        return replace(self, ids=self.ids[rows], types=types, labels=self.labels[rows], lengths=self.lengths[chosen])

    def joined(self, others: "Rows") -> "Rows":
        """These, and then the others, of the same file."""
        width = max(self.ids.shape[1], others.ids.shape[1])

        def both(mine: Tensor, theirs: Tensor, filling: int) -> Tensor:
            return torch.cat([F.pad(part, (0, width - part.shape[1]), value=filling) for part in (mine, theirs)])

        return replace(
            self,
            ids=both(self.ids, others.ids, self.padding),
            types=None if self.types is None or others.types is None else both(self.types, others.types, 0),
            labels=torch.cat([self.labels, others.labels]),
            lengths=np.concatenate([self.lengths, others.lengths]),
        )

    def width(self, chosen: np.ndarray) -> int:
        """To how many tokens these rows are padded."""
        return -(-int(self.lengths[chosen].max()) // BUCKET) * BUCKET

    def batch(self, rows: Tensor, width: int) -> dict[str, Tensor]:
        ids = self.ids[:, :width].index_select(0, rows)
        batch = {"input_ids": ids, "attention_mask": (ids != self.padding).long()}
        if self.types is not None:
            batch["token_type_ids"] = self.types[:, :width].index_select(0, rows)
        return batch

    def shuffled(self, batch: int, orders: list[np.random.Generator]) -> np.ndarray:
        """An epoch's rows for each of several runs, [runs, rows]: shuffled, then batches of rows of like length, in an
        order that the runs share so that their batches are of like length, too."""
        count = len(self) // batch
        places = orders[0].permutation(count)
        each = []
        for order in orders:
            rows = order.permutation(len(self))[: count * batch]
            groups = [rows[start : start + GROUP * batch] for start in range(0, len(rows), GROUP * batch)]
            batches = np.concatenate([group[np.argsort(self.lengths[group], kind="stable")] for group in groups])
            each.append(batches.reshape(count, batch)[places].reshape(-1))
        return np.stack(each)

    def by_length(self, size: int) -> Iterator[np.ndarray]:
        order = np.argsort(self.lengths, kind="stable")
        yield from (order[start : start + size] for start in range(0, len(order), size))


@functools.cache
def tokens_in(path: Path, padding: int) -> Tensor:
    """Those of all parts, sorted; and the first, so that padding keeps its number."""
    with safe_open(path, "pt") as file:
        names = [name for name in file.keys() if name.endswith(".ids")]  # noqa: SIM118  (it is no dict)
        found = [file.get_tensor(name).long() for name in names]
    return torch.cat([torch.arange(padding + 1), *found]).unique()


@functools.cache
def read_rows(path: Path, part: str, padding: int, device: str) -> Rows:
    with safe_open(path, "pt") as file:
        names = set(file.keys())
        ids, ends, labels = (file.get_tensor(f"{part}.{key}") for key in ("ids", "ends", "labels"))
        types = file.get_tensor(f"{part}.types") if f"{part}.types" in names else None
    lengths = torch.diff(ends, prepend=ends.new_zeros(1))
    widest = int(-(-int(lengths.max()) // BUCKET) * BUCKET)
    inside = torch.arange(widest) < lengths[:, None]

    def padded(values: Tensor, filling: int) -> Tensor:
        rows = torch.full(inside.shape, filling)
        rows[inside] = values.long()
        return rows.to(device)

    tokens = tokens_in(path, padding)
    labels = labels.float() if labels.dtype.is_floating_point else labels.long()
    return Rows(
        ids=padded(torch.searchsorted(tokens, ids.long()), padding),
        types=None if types is None else padded(types, 0),
        labels=labels.to(device),
        lengths=lengths.numpy(),
        padding=padding,
        tokens=tokens,
    )


@functools.cache
def describe(path: Path) -> tuple[str, list[str]]:
    """The metric that sums the task up, and the sets it is scored on."""
    with safe_open(path, "pt") as file:
        names = file.keys()
        parts = dict.fromkeys(name.partition(".")[0] for name in names)
        return file.metadata()["metric"], [part for part in parts if part not in ("train", UNLABELLED)]


def train_rows(path: Path, cell: dict[str, Any], padding: int, device: str) -> Rows:
    rows = read_rows(path, "train", padding, device)
    if not cell.get("unlabelled"):
        return rows
    if cell.get("held_out") or "rows" in cell:
        raise ValueError("rows without labels go with the whole train set: leave out unlabelled, or held_out and rows")
    return rows.joined(read_rows(path, UNLABELLED, padding, device))


def split(path: Path, cell: dict[str, Any], padding: int, device: str) -> tuple[Rows, dict[str, Rows]]:
    rows = train_rows(path, {**cell, "unlabelled": cell.get("unlabelled") and cell.get("teacher")}, padding, device)
    if "rows" in cell:  # fewer, to choose settings quickly
        rows = rows.take(np.random.default_rng(7).permutation(len(rows))[: cell["rows"]])
    if not cell.get("held_out"):
        return rows, {part: read_rows(path, part, padding, device) for part in describe(path)[1]}
    kept, out = hold_out(len(rows))
    return rows.take(kept), {"held_out": rows.take(out)}


def hold_out(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of so many rows are trained on, and which are not."""
    chosen = np.random.default_rng(1234).permutation(count)
    out = min(2000, int(HELD_OUT * count))
    return np.sort(chosen[out:]), np.sort(chosen[:out])
