"""Every method where the tensors are: with `--device cuda` on a GPU, with a fused optimizer and scaled gradients."""

import pytest
import torch

import mgpp
from tests.test_contract import CASES, EMERGENT, STEPS, assert_zeros_are_as_asked, method_of
from tests.toy import Toy, batches, rows, weights_of


def trained(case: str, device: torch.device, scale: float | None) -> tuple[dict[str, torch.Tensor], mgpp.Pruner]:
    model = Toy().to(device)
    on_device = [{key: value.to(device) for key, value in row.items()} for row in rows()]
    pruner = mgpp.Pruner(
        model,
        method_of(case),
        total_steps=STEPS,
        train_size=64,
        gradients=mgpp.GradientSampler(model, on_device, seed=3),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0, fused=True)
    pruner.attach(optimizer)
    scaler = torch.amp.GradScaler(device.type, init_scale=scale or 1.0, enabled=scale is not None)
    data = batches(device=device)
    for _ in range(STEPS):
        scaler.scale(model(**next(data))["loss"]).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return weights_of(model), pruner


@pytest.mark.parametrize("case", CASES)
def test_a_fused_optimizer_with_scaled_gradients_prunes_the_same_weights(case, device):
    """A power of two scales exactly: what may differ is the order in which three numbers are multiplied."""
    plain, pruner = trained(case, device, scale=None)
    scaled, _ = trained(case, device, scale=128.0)
    torch.testing.assert_close(scaled, plain)
    assert all(torch.equal(scaled[name] == 0, value == 0) for name, value in plain.items())
    assert all(value.device.type == device.type for value in plain.values())
    if case not in EMERGENT:
        assert_zeros_are_as_asked(case, pruner, pruner.zeros, 0.75)
