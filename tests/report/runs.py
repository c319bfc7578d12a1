"""Runs that were never run: folders with the records and the result of one, as the tests need them."""

import json
from pathlib import Path
from typing import Any

from mgpp import records

KINDS = ("attention.self.query", "attention.output.dense", "output.dense")
WEIGHTS = {f"bert.encoder.layer.{block}.{kind}.weight": 100 for block in range(2) for kind in KINDS}
STEPS, START, END, EVERY = 100, 20, 60, 2
MGPP = {
    "method": "mgpp", "sparsity": 0.9, "start": 0.2, "end": 0.6, "every": 2, "score": "magnitude",
    "slab_prob": 1e-7, "spike_var": 1e-10, "slab_var": 0.05, "strength": 1.0, "decoupled": False,
}  # fmt: skip
L2 = {"method": "l2", "sparsity": 0.9, "start": 0.2, "end": 0.6, "every": 2, "score": "magnitude", "weight": 1e-2}
HALF_WIDTH = 7e-5


def loss_at(step: int) -> float:
    """Falls until the ramp's end, then only jitters."""
    return 0.3 + max(0, END - step) / 100 + 0.004 * (-1) ** (step // 5)


def write_run(
    folder: Path,
    *,
    method: dict[str, Any] | None = MGPP,
    steps: int = STEPS,
    end: int = END,
    cut: float = 2e-3,
    losses=loss_at,
    in_spike: float = 0.5,
    left_in_spike: float = 0.0,
    came_back: float = 0.002,
    score: float = 0.8,
    finished: bool = True,
    until: int | None = None,
    config: dict[str, Any] | None = None,
    weights: dict[str, int] = WEIGHTS,
) -> Path:
    """By default of 600 weights in two blocks. The last matrix (`output.dense` of block 1) loses most, the first
    (`attention.self.query` of block 0) least.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "records.jsonl"
    path.unlink(missing_ok=True)
    start: dict[str, Any] = {"event": "start", "step": 0, "method": method}
    if method is None:
        records.append(path, {**start, "steps": steps})
    else:
        schedule = {"sparsity": method["sparsity"], "initial_sparsity": 0.0, "start": START, "end": end}
        schedule |= {"every": EVERY, "last": steps}
        records.append(path, {**start, "schedule": schedule, "train_size": 1000, "weights": weights, "sample": 600})
    for step in range(1, (until or steps) + 1):
        if method is not None:
            for record in _pruning(step, method, end, cut, in_spike, left_in_spike, came_back, weights):
                records.append(path, record)
        if step % 5 == 0:
            records.append(path, {"event": "log", "step": step, "loss": losses(step), "learning_rate": 1e-4})
        if step % 20 == 0:
            records.append(path, {"event": "log", "step": step, "eval_loss": 0.5, "eval_accuracy": score - 0.1})
    if finished:
        made = result_of(folder, method=method, steps=steps, score=score, config=config or {})
        (folder / "result.json").write_text(json.dumps(made), encoding="utf-8")
        (folder / "config.json").write_text('{"architectures": ["BertForSequenceClassification"]}', encoding="utf-8")
    return folder


def _pruning(step, method, end, cut, in_spike, left_in_spike, came_back, weights) -> list[dict[str, Any]]:
    prior = {"warm_up": min(1.0, step / START), "half_width": HALF_WIDTH} if method["method"] == "mgpp" else {}
    look: dict[str, Any] = {"came_back": came_back} if step > START else {}
    if prior:
        look |= {"in_spike": in_spike, "left_in_spike": left_in_spike}
    after = [0, 0, 0, 30, 20, 10] if step > START else [5, 10, 20, 30, 20, 10]
    look["sizes"] = {"log2": -8.0, "per_octave": 1, "before": [5, 10, 20, 30, 20, 10], "after": after}
    if step < START:
        return [{"event": "look", "step": step, **prior, "look": look}] if step % 4 == 0 else []
    if step <= end and step % EVERY:
        return []
    share = min(1.0, (step - START) / (end - START)) * method["sparsity"]
    percent = {name: 90 + 10 * place / (len(weights) - 1) for place, name in enumerate(weights)}
    zeros = {name: int(size / 100 * share * percent[name]) for name, size in weights.items()}
    sparsity = sum(zeros.values()) / sum(weights.values())
    told = {"event": "prune", "step": step, "target": sparsity, **prior, "sparsity": sparsity, "cut": cut * share}
    return [{**told, "zeros": zeros, **({"look": look} if step % 4 == 0 else {})}]


def result_of(folder: Path, *, method, steps: int, score: float, config: dict[str, Any]) -> dict[str, Any]:
    settings = {"model": "models/mini", "data": "reviews", "eval_data": None, "output": str(folder), "seed": 0}
    return {
        "method": method,
        "metric": "accuracy",
        "before": {"loss": 0.7, "accuracy": 0.5},
        "after": {"loss": 0.4, "accuracy": score},
        "steps": steps,
        "seconds": 50.0 if method is not None else 40.0,
        "seed": 0,
        "versions": {"mgpp": "0.1.0", "torch": "2.13.0"},
        "hardware": {"processor": "abacus", "gpu": None},
        "config": {**settings, "learning_rate": 1e-4, "method": method, **config},
        "files": {"model.safetensors": 1_000_000, "records.jsonl": 1000},
    }
