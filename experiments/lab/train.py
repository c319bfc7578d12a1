"""Short trainings on tokenised rows: raw loops around `mgpp.Pruner`, several models at once (stack.py), the forward and
backward pass recorded in CUDA graphs, so that a small model's step takes the device's time and not the host's."""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scores  # noqa: F401  (its methods are added to the table)
import torch
from rows import UNLABELLED, Rows, describe, hold_out, split, train_rows
from stack import FAMILIES, Stack
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForSequenceClassification, EvalPrediction

import mgpp
from mgpp.functional.distillation import distillation_loss, labelled_loss, soft_label_loss, squared_error
from mgpp.methods import from_dict
from mgpp.tasks.metrics import classification_metrics, regression_metrics

WARM_UP = 0.06  # of the steps, for the learning rate
Cell = dict[str, Any]


def train(cells: list[Cell], models: Path, features: Path, cache: Path, device: str = "cuda") -> list[dict[str, Any]]:
    """What each of `cells` says, all at once: {"model", "task", "method" (a table, or None), "lr", "epochs", "seed",
    "batch", "clip", "betas" (Adam's), "level" (up to which part of the run the learning rate stays), "follow" (the
    method's lr_power, in cells that were run before it had one)}. They share the model, the task, the epochs and the
    batch's size.

    "held_out": score on a tenth of the train set that is not trained on, instead of the validation set. "teacher":
    {"temperature", "weight", "lr", "model", "epochs"}: learn from the dense model of the same task and seed, trained at
    that rate; it is the same model, unless "model" names another, and has had the same epochs, unless it says others.
    "unlabelled": train on the rows without labels, too, which the teacher answers; a teacher must be told to.
    """
    shared = cells[0]
    path, folder = features / shared["model"] / f"{shared['task']}.safetensors", models / shared["model"]
    rows, scored = split(path, shared, padding_of(folder), device)
    size, batch = len(rows), shared.get("batch", 32)
    per_epoch = size // batch
    total = round(shared["epochs"] * per_epoch)
    runs = []
    for cell in cells:
        torch.manual_seed(cell["seed"])
        runs.append(Run(cell, load(folder, rows).to(device), rows, total, per_epoch))
    stack = Stack([run.model for run in runs]) if runs[0].can_stack else None
    losses = []
    for run in runs:  # not before: the stack moves their weights
        run.start()
        taught = None if run.cell.get("teacher") is None else teacher_logits(run.cell, models, features, cache, device)
        taught = None if taught is None else taught[: len(rows)]  # rows without labels are the last
        losses.append(loss_of(run.cell, rows, taught))
    step = Recorded(runs, stack, rows, batch, losses)

    orders = [np.random.default_rng(cell["seed"]) for cell in cells]
    if device == "cuda":
        torch.cuda.synchronize()
    began, t = time.perf_counter(), 0
    while t < total:
        shuffled = rows.shuffled(batch, orders)
        on_device = torch.as_tensor(shuffled, device=device)
        for start in range(0, per_epoch * batch, batch):
            if t == total:
                break
            t += 1
            now = slice(start, start + batch)
            step(on_device[:, now], rows.width(shuffled[:, now]))
            for run in runs:
                run.step(slope(t, total, level=run.cell.get("level", 0.0)))
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    for run in runs:
        run.end()
        if run.cell["method"] is None and run.cell.get("teacher") is None:
            save_logits(run.cell, run.model, train_rows(path, run.cell, padding_of(folder), device), cache)
    about = {
        "metric": describe(path)[0].rpartition("_")[2],
        "steps": total,
        "seconds": round(seconds, 2),
        "stacked": len(cells),
        "recorded": step.is_recorded,
    }
    return [
        {"metrics": {name: score(run.model, part) for name, part in scored.items()}, **about, **run.result()}
        for run in runs
    ]


class Run:
    """One model, its optimizer and its pruner."""

    def __init__(self, cell: Cell, model: nn.Module, rows: Rows, total: int, per_epoch: int) -> None:
        self.cell, self.model, self.pruner = cell, model.train(), None
        if cell["method"] is not None:
            self.pruner = mgpp.Pruner(
                model,
                from_dict({**cell["method"], **({"lr_power": cell["follow"]} if "follow" in cell else {})}),
                total_steps=total,
                train_size=len(rows),
                steps_per_epoch=per_epoch,
                gradients=mgpp.GradientSampler(model, _Indices(len(rows)), collate=_Collate(rows), seed=cell["seed"]),
                looks=cell.get("looks", 0),
                on_record=self._hear,
            )
        self.records: list[dict[str, Any]] = []

    @property
    def can_stack(self) -> bool:
        return self.model.config.model_type in FAMILIES

    def start(self) -> None:
        betas = tuple(self.cell.get("betas", (0.9, 0.999)))
        self.optimizer = mgpp.AdamW(self.model.parameters(), lr=self.cell["lr"], betas=betas, weight_decay=0.0)
        for group in self.optimizer.param_groups:
            group["initial_lr"] = self.cell["lr"]
        if self.pruner is not None:
            self.pruner.attach(self.optimizer)

    def step(self, share: float) -> None:
        self.optimizer.param_groups[0]["lr"] = self.cell["lr"] * share
        self.optimizer.step()

    def end(self) -> None:
        if self.pruner is not None:
            self.pruner.finish()
            self.pruner.settle()

    def result(self) -> dict[str, Any]:
        if self.pruner is None:
            return {"sparsity": 0.0}
        kept = {"records": self.records} if self.cell.get("looks") else {}
        return {
            "sparsity": self.pruner.sparsity,
            "memory": self.pruner.memory.bytes,
            "last": {key: value for key, value in (self.pruner.last_record or {}).items() if key != "zeros"},
            **kept,
        }

    def _hear(self, record: dict[str, Any]) -> None:
        if self.cell.get("looks"):  # the zeros of every matrix would make it ten times as long
            self.records.append({key: value for key, value in record.items() if key != "zeros"})


def slope(t: int, total: int, *, level: float = 0.0) -> float:
    """Up over the first steps, level up to this part of the run, then down to nothing, along lines."""
    first = max(1, round(WARM_UP * total))
    from_here = max(first, round(level * total))
    return min(1.0, t / first, (total - t) / max(1, total - from_here))


@functools.cache
def padding_of(folder: Path) -> int:
    return AutoConfig.from_pretrained(folder).pad_token_id or 0


def load(folder: Path, rows: Rows) -> nn.Module:
    """With a head that is new, also where the model brings one for as many classes: it was another task's."""
    classes = 1 if rows.is_regression else int(rows.labels.max()) + 1
    model, told = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=classes, ignore_mismatched_sizes=True, dtype=torch.float32, output_loading_info=True
    )
    drawn = [*told["missing_keys"], *[name for name, *_ in told["mismatched_keys"]]]
    if not any(name.startswith("classifier.") for name in drawn):
        nn.init.normal_(model.classifier.weight, std=model.config.initializer_range)
        nn.init.zeros_(model.classifier.bias)
    whole = model.get_input_embeddings()
    some = nn.Embedding.from_pretrained(whole.weight.data[rows.tokens], freeze=False, padding_idx=whole.padding_idx)
    model.set_input_embeddings(some)
    return model


Loss = Callable[[Tensor, Tensor], Tensor]


def loss_of(cell: Cell, rows: Rows, taught: Tensor | None) -> Loss:
    """Of the logits of some rows."""

    def loss(logits: Tensor, chosen: Tensor) -> Tensor:
        logits, labels = logits.float(), rows.labels.index_select(0, chosen)
        if cell.get("unlabelled"):
            task = labelled_loss(logits, labels)
        else:
            task = F.mse_loss(logits.squeeze(-1), labels) if rows.is_regression else F.cross_entropy(logits, labels)
        if taught is None:
            return task
        goal = taught.index_select(0, chosen)
        temperature, weight = cell["teacher"]["temperature"], cell["teacher"]["weight"]
        soft = (
            squared_error(logits, goal)
            if rows.is_regression
            else soft_label_loss(logits, goal, temperature=temperature)
        )
        return distillation_loss(task, soft.mean(), weight=weight)

    return loss


class Recorded:
    """Gradients of one batch each, clipped: recorded once for every width, then played back."""

    def __init__(self, runs: list[Run], stack: Stack | None, rows: Rows, batch: int, losses: list[Loss]) -> None:
        self._runs, self._stack, self._rows, self._losses = runs, stack, rows, losses
        self._chosen = torch.zeros(len(runs), batch, dtype=torch.long, device=rows.ids.device)
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.is_recorded = rows.ids.is_cuda
        if stack is None:
            for param in runs[0].model.parameters():
                param.grad = torch.zeros_like(param)

    def __call__(self, chosen: Tensor, width: int) -> None:
        self._chosen.copy_(chosen)
        if not self.is_recorded:
            self._run(width)
            return
        if width not in self._graphs:
            self._record(width)
        self._graphs[width].replay()

    def _run(self, width: int) -> None:
        if self._stack is None:
            self._run_alone(width)
        else:
            self._run_together(self._stack, width)
        for run in self._runs:
            clip = run.cell.get("clip", 1.0)
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(run.model.parameters(), clip, foreach=True)

    def _run_alone(self, width: int) -> None:
        model, chosen = self._runs[0].model, self._chosen[0]
        torch._foreach_zero_([param.grad for param in model.parameters()])
        with torch.autocast("cuda", torch.bfloat16, enabled=chosen.is_cuda, cache_enabled=False):
            logits = model(**self._rows.batch(chosen, width)).logits
        self._losses[0](logits, chosen).backward()

    def _run_together(self, stack: Stack, width: int) -> None:
        batch = self._rows.batch(self._chosen.flatten(), width)
        ids, mask, types = (
            None if key not in batch else batch[key].view(*self._chosen.shape, width)
            for key in ("input_ids", "attention_mask", "token_type_ids")
        )
        logits = stack.logits(ids, mask, types)
        each = [loss(mine, chosen) for loss, mine, chosen in zip(self._losses, logits, self._chosen, strict=True)]
        stack.backward(torch.stack(each).sum())

    def _record(self, width: int) -> None:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self._run(width)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        pool = next(iter(self._graphs.values())).pool() if self._graphs else None
        with torch.cuda.graph(graph, pool=pool):
            self._run(width)
        self._graphs[width] = graph


class _Indices:
    """The rows by their numbers, for a sampler that draws them."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, row: int) -> int:
        return row


class _Collate:
    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __call__(self, chosen: list[int]) -> dict[str, Tensor]:
        rows = torch.as_tensor(chosen, device=self._rows.ids.device)
        batch = self._rows.batch(rows, self._rows.width(np.asarray(chosen)))
        return {**batch, "labels": self._rows.labels.index_select(0, rows)}


@torch.no_grad()
def logits_of(model: nn.Module, rows: Rows) -> Tensor:
    model.eval()
    found: Tensor | None = None
    for chosen in rows.by_length(256):
        index = torch.as_tensor(chosen, device=rows.ids.device)
        logits = model(**rows.batch(index, rows.width(chosen))).logits.float()
        found = logits.new_zeros(len(rows), logits.shape[-1]) if found is None else found
        found[index] = logits
    assert found is not None
    return found


def score(model: nn.Module, rows: Rows) -> dict[str, float]:
    prediction = EvalPrediction(predictions=logits_of(model, rows).cpu().numpy(), label_ids=rows.labels.cpu().numpy())
    return regression_metrics(prediction) if rows.is_regression else classification_metrics(prediction)


def _logits_file(cell: Cell, cache: Path) -> Path:
    where = "held_out" if cell.get("held_out") else UNLABELLED if cell.get("unlabelled") else "whole"
    return cache / f"{cell['model']}-{cell['task']}-{cell['seed']}-{cell['lr']:g}-{cell['epochs']:g}-{where}.pt"


def save_logits(cell: Cell, model: nn.Module, rows: Rows, cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    path = _logits_file(cell, cache)
    part = path.with_suffix(f".{time.monotonic_ns()}")
    torch.save(logits_of(model, rows).cpu(), part)
    part.replace(path)


def teacher_logits(cell: Cell, models: Path, features: Path, cache: Path, device: str) -> Tensor:
    """The dense model's on all train rows, trained now where it has not been; of the rows that the cell trains on."""
    if "rows" in cell:
        raise ValueError("a teacher has seen all rows: leave out rows, or the teacher")
    told = cell["teacher"]
    own = {key: told[key] for key in ("model", "lr", "epochs", "unlabelled") if key in told}
    dense = {**cell, "method": None, "teacher": None, **own}
    path = _logits_file(dense, cache)
    if not path.exists():
        train([dense], models, features, cache, device)
    logits = torch.load(path, weights_only=True).to(device)
    if not cell.get("held_out"):
        return logits
    return logits[torch.as_tensor(hold_out(len(logits))[0], device=device)]
