"""Fine-tune a classifier and prune it on the way, sharded by FSDP2, in a loop of one's own.

    torchrun --nproc-per-node 4 examples/scale/fsdp2.py MODEL TRAIN.jsonl --output out

MODEL is a folder or a hub id; every line of TRAIN.jsonl is {"text": "...", "label": 0}. The same line with --resume
goes on from the last checkpoint, on any number of processes. Without a GPU it runs on the CPU, over gloo.
"""

import argparse
import gc
import json
import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import mgpp

# Who waits for a process that has gone is told after this time, not after torch's ten minutes and more. Longer than the
# longest that one process may lawfully be alone: with NCCL that is its slowest save.
TIMEOUT = timedelta(seconds=50)


def main(arguments: Sequence[str] | None = None) -> None:
    args = parse(arguments)
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=TIMEOUT)
    try:
        train(args, device)
    finally:
        gc.collect()  # what still holds the group keeps its threads, and one that wakes up too late aborts the process
        dist.destroy_process_group()


def train(args: argparse.Namespace, device: torch.device) -> None:
    torch.manual_seed(args.seed)  # a fresh head must be the same in all processes
    data = Rows(args.data, AutoTokenizer.from_pretrained(args.model), batch_size=args.batch_size, seed=args.seed)
    model = AutoModelForSequenceClassification.from_pretrained(args.model, dtype=torch.float32).to(device).train()
    shard(model, device, bf16=args.bf16)

    # First the shards, then what works on them.
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    pruner = mgpp.Pruner(
        model,
        mgpp.MGPP(sparsity=args.sparsity),
        total_steps=args.steps,
        train_size=len(data),  # all rows, not this process's share
        on_record=lambda record: say(f"step {record['step']}: {record['sparsity']:.4f} zero, cut {record['cut']:.3g}"),
    )
    pruner.attach(optimizer)
    if args.resume:
        load(args.output, model, optimizer, pruner)
    for step in range(pruner.t, args.steps):
        loss = model(**data.batch(step, device)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()  # adds the prior, and prunes when it is time
        optimizer.zero_grad()
        if (step + 1) % args.save_steps == 0:
            save(args.output, model, optimizer, pruner)
    say(f"finished: {pruner.sparsity:.4f} of {pruner.num_weights:,} weights are zero")  # all count, one says it
    export(args.output, model)


def shard(model: nn.Module, device: torch.device, *, bf16: bool) -> None:
    """Layer by layer, so that no process ever has more than one whole layer."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    settings: dict[str, Any] = {"mesh": mesh}
    if bf16:
        settings["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    layers = next(module for module in model.modules() if isinstance(module, nn.ModuleList))
    for layer in layers:
        fully_shard(layer, **settings)
    fully_shard(model, **settings)


class Rows:
    """Which rows make step t's batch depends on the seed and on t alone; each process takes its part of them."""

    def __init__(self, path: str, tokenizer: Any, *, batch_size: int, seed: int) -> None:
        self.rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
        self.tokenizer, self.batch_size, self.seed = tokenizer, batch_size, seed
        if batch_size % dist.get_world_size():
            raise SystemExit(f"--batch-size {batch_size} is for all {dist.get_world_size()} processes: give a multiple")

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, step: int, device: torch.device) -> dict[str, Tensor]:
        per_epoch = max(1, len(self.rows) // self.batch_size)
        epoch, place = divmod(step, per_epoch)
        order = torch.randperm(len(self.rows), generator=torch.Generator().manual_seed(self.seed + epoch)).tolist()
        chosen = [self.rows[i] for i in order[place * self.batch_size : (place + 1) * self.batch_size]]
        mine = chosen[dist.get_rank() :: dist.get_world_size()]
        texts = self.tokenizer([row["text"] for row in mine], truncation=True, padding=True, return_tensors="pt")
        labels = torch.tensor([row["label"] for row in mine])
        return {key: value.to(device) for key, value in {**texts, "labels": labels}.items()}


def save(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, pruner: mgpp.Pruner) -> None:
    """All processes write their shards; the pruner's file comes last, and without it a checkpoint does not count."""
    checkpoint = folder / f"checkpoint-{pruner.t}"
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=checkpoint / "torch")
    pruner.save(checkpoint)


def load(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, pruner: mgpp.Pruner) -> None:
    whole = [path.parent for path in folder.glob("checkpoint-*/pruner.safetensors")]
    newest = max(whole, key=lambda path: int(path.name.rpartition("-")[2]))
    weights, moments = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=newest / "torch")
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    pruner.load(newest)
    say(f"resuming after step {pruner.t}")


def export(folder: Path, model: Any) -> None:
    """A plain checkpoint for from_pretrained, written by one process."""
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        model.save_pretrained(folder, state_dict=whole)
    dist.barrier()  # all leave together: one that ends badly on its way out ends the one that is still writing


def say(line: str) -> None:
    if dist.get_rank() == 0:
        print(line, flush=True)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--sparsity", type=float, default=0.9)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=32, help="of all processes together")
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--save-steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--resume", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
