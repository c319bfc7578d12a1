"""A decoder of seven billion weights on one GPU: a step, an event, and the memory of both."""

from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig

from mgpp.adamw import AdamW
from mgpp.bench.overhead import RAMP, TRAIN_SIZE
from mgpp.bench.timing import Tell, milliseconds, on_device, peak_bytes, release, silent, summary, table_row
from mgpp.methods import from_dict
from mgpp.pruner import Pruner

LLAMA_7B: dict[str, Any] = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008,
    "vocab_size": 32_000,
}  # fmt: skip


def measure_decoder(
    *,
    device: torch.device,
    dtype: torch.dtype,
    layers: int = 32,
    length: int = 256,
    rounds: int = 5,
    tell: Tell = silent,
) -> list[dict[str, Any]]:
    """Steps of plain AdamW, then of MGPP with every step an event, on the same model; and one event by itself."""
    torch.manual_seed(0)
    with device:
        config = LlamaConfig(**{**LLAMA_7B, "num_hidden_layers": layers})
        model: nn.Module = AutoModelForCausalLM.from_config(config, dtype=dtype)
        ids = torch.randint(5, 30_000, (1, length))
    model.train()
    model.gradient_checkpointing_enable()  # type: ignore[operator]

    def backward() -> None:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()

    rows = []
    for number, name in enumerate(("plain", "mgpp"), 1):
        tell(f"{number} of 2: {name}")
        optimizer = AdamW(model.parameters(), lr=1e-6, weight_decay=0.0)
        pruner = None
        if name == "mgpp":
            method = from_dict({"method": "mgpp", **RAMP})
            pruner = Pruner(model, method, total_steps=10**9, train_size=TRAIN_SIZE)
            pruner.attach(optimizer)

        def step(optimizer: torch.optim.Optimizer = optimizer) -> None:
            backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

        for _ in range(3):
            step()
        times = summary([milliseconds(step, device) for _ in range(rounds)])
        backward()
        optimizing = summary([on_device(optimizer.step, device, ahead_ms=50) or 0.0 for _ in range(rounds)])
        facts = {
            "dtype": str(dtype).removeprefix("torch."),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "prunable": pruner.num_weights if pruner is not None else None,
            "sparsity": pruner.sparsity if pruner is not None else 0.0,
            "optimizer_ms": round(optimizing["median_ms"], 3),
            "optimizer_bytes": peak_bytes(optimizer.step, device),
            "peak_bytes": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
        }
        rows.append(table_row(name, times, **facts))
        optimizer.zero_grad()
        del optimizer, step, pruner
        release(device)
    return rows
