"""What a training step costs with each method, against plain AdamW, when every step prunes."""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    BertConfig,
    DebertaV2Config,
    LlamaConfig,
    PretrainedConfig,
)

from mgpp.adamw import AdamW
from mgpp.bench.naive import NaivePruner
from mgpp.bench.timing import Tell, peak_bytes, release, silent, table_row, take_turns
from mgpp.methods import METHODS, from_dict
from mgpp.methods.recommended import spelled
from mgpp.methods.times import Run
from mgpp.pruner import Pruner

TRAIN_SIZE = 392_702  # MNLI's
FIRST_STEPS, LATE_STEP = 4, 10_000
# The ramp is over after two steps, so every step measured is an event at full sparsity.
RAMP = {"sparsity": 0.9, "start": 1, "end": 2, "every": 1}
# At full strength it soon draws all weights of a model that has nothing to learn to one size, which no run does.
DECOUPLED = {"method": "mgpp", "decoupled": True, "strength": 0.01}


@dataclass(frozen=True)
class Shape:
    config: PretrainedConfig
    batch: int
    length: int
    causal: bool = False
    together: int = 4  # sides whose models, moments and scores fit a large card beside plain AdamW's

    def model(self) -> nn.Module:
        """With random weights, on the default device."""
        kind = AutoModelForCausalLM if self.causal else AutoModelForSequenceClassification
        return kind.from_config(self.config)


SHAPES: dict[str, Shape] = {
    "minilm": Shape(
        BertConfig(num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536), 32, 32
    ),
    "bert-base": Shape(BertConfig(), 32, 128),
    "deberta-base": Shape(
        DebertaV2Config(  # type: ignore[call-arg]
            vocab_size=128_100, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
            relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True,
            pos_att_type=["p2c", "c2p"], position_biased_input=False, type_vocab_size=0, max_relative_positions=-1,
        ),
        128,  # with fewer rows the host takes longer than the device
        128,
    ),
    "llama-1b": Shape(
        LlamaConfig(
            vocab_size=32_000, hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
            intermediate_size=8192, tie_word_embeddings=True,
        ),
        8,
        512,
        causal=True,
        together=2,
    ),
}  # fmt: skip


def measure_overhead(
    shape: str,
    *,
    device: torch.device,
    rounds: int = 20,
    naive: bool = True,
    only: list[str] | None = None,
    graphs: bool = False,
    tell: Tell = silent,
) -> list[dict[str, Any]]:
    """One row a side: milliseconds of a whole step, of the device alone and of the host in the optimizer, the ratio to
    plain AdamW of the same rounds, and the bytes it keeps beyond it. `graphs`: forward and backward pass are played
    back from a CUDA graph, so that the device waits for nobody but the optimizer and the pruner."""
    if graphs and device.type != "cuda":
        raise ValueError(f"graphs are for a GPU, and device={str(device)!r}: leave --graphs out")
    sides = _sides(device, naive=naive)
    unknown = sorted(set(only or ()) - sides.keys())
    if unknown:
        raise ValueError(f"only={unknown[0]!r} is not one of {'; '.join(sides)}")
    rows: list[dict[str, Any]] = []
    wanted = [name for name in sides if only is None or name in only or name == "plain"]
    groups = _few_at_a_time(wanted, SHAPES[shape].together)
    for number, chosen in enumerate(groups, 1):
        tell(f"{number} of {len(groups)}: {'; '.join(chosen)}")
        runs = {name: _Side(SHAPES[shape], device, sides[name]) for name in chosen}
        for run in runs.values():
            run.grow_old()
            if graphs:
                run.record()
        steps = {name: run.step for name, run in runs.items()}
        times = take_turns(steps, rounds=rounds, warm_up=6, device=device, calls=5 if device.type == "cuda" else 1)
        for name, numbers in times.items():
            if name == "plain" and rows:
                continue
            rows.append(
                table_row(
                    name, numbers, shape=shape,
                    ratio=_ratio(numbers, times["plain"], "median_ms"),
                    device_ratio=_ratio(numbers, times["plain"], "device_ms"),
                    host_ms=runs[name].host_ms(),
                    kept_bytes=runs[name].kept_bytes(),
                    step_bytes=runs[name].step_bytes(),
                )
            )  # fmt: skip
        runs.clear()
        release(device)
    return rows


def _ratio(numbers: dict[str, Any], plain: dict[str, Any], key: str) -> float | None:
    return None if plain[key] is None else round(numbers[key] / plain[key], 4)


def _few_at_a_time(names: list[str], count: int) -> list[list[str]]:
    """Sides share the device's memory with each other: a few at once, plain AdamW among them each time."""
    others = [name for name in names if name != "plain"]
    return [["plain", *others[start : start + count]] for start in range(0, max(1, len(others)), count)]


Start = Callable[[nn.Module], tuple[torch.optim.Optimizer, Any]]


def _sides(device: torch.device, *, naive: bool) -> dict[str, Start]:
    def theirs(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, fused=True)

    def ours(model: nn.Module) -> torch.optim.Optimizer:
        return AdamW(model.parameters(), lr=1e-5, weight_decay=0.0)

    def pruned(optimizer_of: Callable[[nn.Module], torch.optim.Optimizer], **settings: Any) -> Start:
        def start(model: nn.Module) -> tuple[torch.optim.Optimizer, Pruner]:
            method = from_dict({**RAMP, **settings})
            pruner = Pruner(model, method, total_steps=10**9, train_size=TRAIN_SIZE)
            optimizer = optimizer_of(model)
            pruner.attach(optimizer)
            return optimizer, pruner

        return start

    def by_hand(threshold: str) -> Start:
        def start(model: nn.Module) -> tuple[torch.optim.Optimizer, NaivePruner]:
            weights = list(Pruner(model, from_dict({"method": "gmp", **RAMP}), total_steps=9).targets.values())
            return theirs(model), NaivePruner(weights, sparsity=0.9, train_size=TRAIN_SIZE, threshold=threshold)

        return start

    sides: dict[str, Start] = {
        "plain": lambda model: (theirs(model), None),
        "plain, mgpp.AdamW": lambda model: (ours(model), None),
        "mgpp, mgpp.AdamW": pruned(ours, method="mgpp"),
        "mgpp decoupled, mgpp.AdamW": pruned(ours, **DECOUPLED),
        "mgpp curvature, mgpp.AdamW": pruned(ours, method="mgpp", score="curvature"),
        "mgpp curvature": pruned(theirs, method="mgpp", score="curvature"),
        "mgpp curvature decoupled, mgpp.AdamW": pruned(ours, **DECOUPLED, score="curvature"),
        "mgpp curvature decoupled": pruned(theirs, **DECOUPLED, score="curvature"),
        "recommended, mgpp.AdamW": pruned(ours, **spelled({"method": "mgpp"})),
        "recommended": pruned(theirs, **spelled({"method": "mgpp"})),
        "gmp curvature, mgpp.AdamW": pruned(ours, method="gmp", score="curvature"),
        "gmp curvature": pruned(theirs, method="gmp", score="curvature"),
        "mgpp 2x1": pruned(theirs, method="mgpp", structure="2x1"),
        "mgpp 4x4": pruned(theirs, method="mgpp", structure="4x4"),
        "mgpp 2:4": pruned(theirs, method="mgpp", structure="2:4", sparsity=0.5),
        **{name: pruned(theirs, method=name) for name in METHODS if not _samples_gradients(name)},
    }
    if naive:
        sides["mgpp by eager ops and sort"] = by_hand("sort")
        if device.type == "cuda":
            sides["mgpp by eager ops and kthvalue"] = by_hand("kthvalue")
    return sides


def _samples_gradients(name: str) -> bool:
    """Such a method's events are no part of a step: its card says what they cost."""
    run = Run(total_steps=100, steps_per_epoch=10, train_size=TRAIN_SIZE)
    return from_dict({"method": name, **RAMP}).recipe(run).samples_gradients


class _Side:
    """A model of its own, trained on one batch over and over."""

    def __init__(self, shape: Shape, device: torch.device, start: Start) -> None:
        torch.manual_seed(0)
        with device:
            self.model = shape.model()
            ids = torch.randint(5, 30_000, (shape.batch, shape.length))
            labels = ids if shape.causal else torch.zeros(shape.batch, dtype=torch.long)
        self.model.train()
        self.batch: dict[str, Tensor] = {"input_ids": ids, "labels": labels}
        self.device = device
        self.optimizer, self.pruner = start(self.model)
        self.returned: list[float] = []  # after so many seconds the optimizer's step has
        self.graph: torch.cuda.CUDAGraph | None = None

    def step(self) -> None:
        self.take_gradients()
        self.optimize()
        if self.graph is None:
            self.optimizer.zero_grad()

    def take_gradients(self) -> None:
        if self.graph is None:
            self._forward_and_backward()
        else:
            self.graph.replay()

    def optimize(self) -> None:
        start = time.perf_counter()
        if isinstance(self.pruner, NaivePruner):
            self.pruner.before_step()
        self.optimizer.step()
        if isinstance(self.pruner, NaivePruner):
            self.pruner.after_step()
        self.returned.append(time.perf_counter() - start)

    def record(self) -> None:
        """Let gradients come from a CUDA graph from now on, into the same memory every time."""
        gradients = [torch.zeros_like(param) for param in self.model.parameters()]
        for param, gradient in zip(self.model.parameters(), gradients, strict=True):
            param.grad = gradient
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # what libraries set up on their first call cannot be recorded
            self._forward_and_backward()
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            torch._foreach_zero_(gradients)
            self._forward_and_backward()

    def _forward_and_backward(self) -> None:
        with self._autocast():
            loss = self.model(**self.batch).loss
        loss.backward()

    def grow_old(self) -> None:
        """Let Adam's moments stand as they do late in a run. In its first steps v̂ moves by a tenth a step,
        and no cut of a score that reads it is where the last one was."""
        for _ in range(FIRST_STEPS):
            self.step()
        counters: dict[int, Tensor] = {}
        for group in self.optimizer.param_groups:
            for state in (self.optimizer.state[param] for param in group["params"] if self.optimizer.state[param]):
                for moment, beta in zip(("exp_avg", "exp_avg_sq"), group["betas"], strict=True):
                    state[moment].div_(1 - beta**FIRST_STEPS)
                counters[id(state["step"])] = state["step"]
        for counter in counters.values():  # mgpp.AdamW's parameters share one
            counter.fill_(LATE_STEP)

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast("cuda", dtype=torch.bfloat16) if self.device.type == "cuda" else nullcontext()

    def host_ms(self) -> float | None:
        """How long the host is busy with the optimizer's step and the pruning in it, whatever the device does then."""
        return round(1e3 * statistics.median(self.returned), 4) if self.device.type == "cuda" else None

    def kept_bytes(self) -> int:
        return self.pruner.memory.bytes if isinstance(self.pruner, Pruner) else 0

    def step_bytes(self) -> int | None:
        """The most that the optimizer's step and the pruning in it had allocated at once."""
        self.take_gradients()
        return peak_bytes(self.optimize, self.device)
