"""Whole trajectories of the reference code, matched at every step through Pruner and torch's own optimizers."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import mgpp

FOLDER = Path(__file__).parent / "golden"

METHODS = {
    "mgpp": lambda cfg, ramp: mgpp.MGPP(
        **ramp, slab_prob=cfg["slab_prob"], spike_var=cfg["spike_var"], slab_var=cfg["slab_var"]
    ),
    "gmp": lambda cfg, ramp: mgpp.GMP(**ramp),
    "platon": lambda cfg, ramp: mgpp.PLATON(**ramp, beta1=cfg["beta1"], beta2=cfg["beta2"]),
    "sensitivity": lambda cfg, ramp: mgpp.ITP(**ramp, beta1=cfg["beta1"]),
}
OPTIMIZERS = {
    "sgd": lambda params, lr: torch.optim.SGD(params, lr=lr),
    "adamw": lambda params, lr: torch.optim.AdamW(params, lr=lr, weight_decay=0),
}


def model_with(weights: dict[str, np.ndarray]) -> tuple[nn.Module, dict[str, nn.Parameter]]:
    """A stack of linear layers that holds these matrices in this order."""
    layers = nn.ModuleList()
    for value in weights.values():
        layer = nn.Linear(value.shape[1], value.shape[0], bias=False, dtype=torch.float64)
        layer.weight.data = torch.from_numpy(value.copy())
        layers.append(layer)
    model = nn.Module()
    model.layers = layers
    return model, {name: layer.weight for name, layer in zip(weights, layers, strict=True)}


CASES = ["mgpp-sgd", "mgpp-adamw", "gmp-adamw", "platon-sgd", "platon-adamw", "sensitivity-adamw"]


@pytest.mark.parametrize("case", CASES)
def test_the_reference_trajectory_is_matched_at_every_step(case):
    inputs, golden = np.load(FOLDER / "inputs.npz"), np.load(FOLDER / f"{case}.npz")
    cfg = ast.literal_eval(str(golden["cfg"]))
    names = [key.removeprefix("init/") for key in inputs.files if key.startswith("init/")]
    model, weights = model_with({name: inputs[f"init/{name}"] for name in names})
    ramp = {"sparsity": cfg["sparsity"], "start": cfg["t_i"], "end": cfg["t_f"], "every": cfg["delta_t"]}
    records: dict[int, dict] = {}
    pruner = mgpp.Pruner(
        model,
        METHODS[cfg["method"]](cfg, ramp),
        total_steps=cfg["total_steps"],
        train_size=cfg["n_train"],
        include=["*"],
        on_record=lambda record: records.update({record["step"]: record}),
    )
    optimizer = OPTIMIZERS[cfg["optimizer"]](list(weights.values()), cfg["lr"])
    pruner.attach(optimizer)

    for row in range(cfg["total_steps"]):
        for name, weight in weights.items():
            weight.grad = torch.from_numpy(inputs[f"grad/{name}"][row].copy())
        optimizer.step()
        for name, weight in weights.items():
            expected = torch.from_numpy(golden[f"weight/{name}"][row])
            torch.testing.assert_close(weight.detach(), expected, rtol=1e-9, atol=0)
        assert sum(pruner.zeros.values()) == golden["zeros"][row]
        if not np.isnan(golden["threshold"][row]):
            assert records[row + 1]["cut"] == pytest.approx(golden["threshold"][row], rel=1e-9)
