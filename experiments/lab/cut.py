"""What is left of a dense model when a small share of every matrix is cut: by movement's scores, and by others.

usage: python experiments/lab/cut.py RESULTS --models DIR --features DIR [--seeds 0 1] [--at 97 291]

The model is trained dense, as a cell of grid.py is, and beside it learns the scores S that hard movement would have
before its first mask. After the steps of --at every kind of cut is made once at every share, scored on the held-out
rows, and taken back. RESULTS gets one line a seed.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rows import Rows
from torch import Tensor, nn
from torch.nn import functional as F
from train import load, logits_of, padding_of, slope, split

import mgpp
from mgpp.functional.learned import learn_scores_
from mgpp.run.result import provenance
from mgpp.targets import find_targets

CELL = {"name": "cut", "model": "minilm", "task": "stsb", "method": None, "epochs": 6, "lr": 1e-4, "held_out": True}
BATCH = 32
SHARES = (0.001, 0.01, 0.1)
Look = dict[str, Any]


class Watched:
    """The matrices of a model in training, and what the gradient has said of each weight so far."""

    def __init__(self, model: nn.Module) -> None:
        self.weights = list(find_targets(model).values())
        self.scores, self._means, self._squares, self.sums = (
            [torch.zeros_like(weight, requires_grad=False) for weight in self.weights] for _ in range(4)
        )

    @torch.no_grad()
    def hear(self, *, t: int, share: float) -> None:
        """The gradient of step t, at this share of the learning rate."""
        grads = [weight.grad for weight in self.weights]
        lr = share * mgpp.Movement.score_lr
        learn_scores_(grads, self.weights, self.scores, self._means, self._squares, t=t, lr=lr)
        for total, weight, grad in zip(self.sums, self.weights, grads, strict=True):
            total.sub_(share * grad * weight)

    def kinds(self, seed: int) -> dict[str, list[Tensor]]:
        """By what may be cut: the lowest go."""
        generator = torch.Generator().manual_seed(seed)
        return {
            "lowest S": self.scores,
            "highest S": [-worth for worth in self.scores],
            "lowest sum": self.sums,
            "random": [torch.rand(weight.shape, generator=generator) for weight in self.weights],
            "magnitude": [weight.detach().abs() for weight in self.weights],
        }

    @torch.no_grad()
    def cut_(self, lowest: list[Tensor], share: float) -> None:
        """That share of every matrix."""
        for weight, worth in zip(self.weights, lowest, strict=True):
            k = int(share * weight.numel())
            weight[worth <= float(np.partition(worth.numpy(), k - 1, axis=None)[k - 1])] = 0


def steps(rows: Rows, seed: int) -> Iterator[np.ndarray]:
    """Batches without end."""
    order = np.random.default_rng(seed)
    while True:
        (shuffled,) = rows.shuffled(BATCH, [order])
        yield from shuffled.reshape(-1, BATCH)


def told(model: nn.Module, held: Rows) -> dict[str, float]:
    said = logits_of(model, held).squeeze(-1)
    correlation = torch.corrcoef(torch.stack([said, held.labels]).double())[0, 1]
    return {"pearson": float(correlation), "mse": float(F.mse_loss(said, held.labels))}


def look(model: nn.Module, watched: Watched, held: Rows, seed: int) -> Look:
    whole = [weight.detach().clone() for weight in watched.weights]
    found: Look = {"dense": told(model, held), "cuts": []}
    for kind, lowest in watched.kinds(seed).items():
        for share in SHARES:
            watched.cut_(lowest, share)
            found["cuts"].append({"by": kind, "share": share, **told(model, held)})
            with torch.no_grad():
                torch._foreach_copy_(watched.weights, whole)
    model.train()
    return found


def run(seed: int, at: list[int], models: Path, features: Path) -> dict[str, Any]:
    torch.manual_seed(seed)
    folder = models / CELL["model"]
    path = features / CELL["model"] / f"{CELL['task']}.safetensors"
    rows, scored = split(path, CELL, padding_of(folder), "cpu")
    model = load(folder, rows).train()
    watched, optimizer = Watched(model), torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    total, looks, began = CELL["epochs"] * (len(rows) // BATCH), [], time.perf_counter()
    for t, chosen in zip(range(1, max(at) + 1), steps(rows, seed), strict=False):
        index, share = torch.as_tensor(chosen), slope(t, total)
        logits = model(**rows.batch(index, rows.width(chosen))).logits
        optimizer.zero_grad()
        F.mse_loss(logits.squeeze(-1), rows.labels[index]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        watched.hear(t=t, share=share)
        optimizer.param_groups[0]["lr"] = CELL["lr"] * share
        optimizer.step()
        if t in at:
            looks.append({"step": t, **look(model, watched, scored["held_out"], seed)})
    seconds = round(time.perf_counter() - began, 2)
    return {"cell": {**CELL, "seed": seed}, "steps": max(at), "seconds": seconds, "looks": looks, **provenance()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--at", type=int, nargs="+", default=[97, 291], help="steps; at 97 a ramp of 6 epochs begins")
    args = parser.parse_args()
    for seed in args.seeds:
        line = run(seed, args.at, args.models, args.features)
        with args.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"seed {seed}: {line['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
