"""What the interpreter runs a GPU's compiler takes, too: it is stricter about types and shapes."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest
import torch
from triton.runtime import interpreter

import mgpp
from mgpp import kernels
from mgpp.kernels.layout import lay_out
from tests.kernels.compiling import describe
from tests.kernels.test_select_again import events_by_curvature
from tests.test_contract import STEPS, method_of
from tests.toy import Toy, batches

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU compiles what it runs")

FUSED = ["mgpp", "mgpp-decoupled", "mgpp-curvature"]
BESIDE = ["mgpp", "mgpp-decoupled", "platon", "movement", "soft-movement", "losparse", "hold-mask"]


@pytest.fixture
def launches(monkeypatch) -> dict[str, dict]:
    """All that are made from now on, each once."""
    made: dict[str, dict] = {}
    call = interpreter.GridExecutor.__call__

    def noted(self, *args, **more):
        launch = describe(self.fn, self.arg_names, self.constexprs, args, more)
        made[json.dumps(launch, sort_keys=True)] = launch
        return call(self, *args, **more)

    def always(key, lists, scratch, *, fresh=()):
        return lay_out(key, lists, scratch, fresh=fresh)

    monkeypatch.setattr(interpreter.GridExecutor, "__call__", noted)
    monkeypatch.setattr(kernels, "_laid_out", always)
    return made


# One target throughout: the first event must find its cut, the second knows where it was, and the optimizer counts.
STANDING = {"initial_sparsity": 0.75, "every": 2}


def train(case: str, optimizer_of, dtype: torch.dtype, **ramp) -> None:
    model = Toy().to(dtype)
    pruner = mgpp.Pruner(model, method_of(case, **ramp), total_steps=STEPS, train_size=64)
    optimizer = optimizer_of(model.parameters(), lr=1e-2)
    pruner.attach(optimizer)
    data = batches()
    for _ in range(8):  # with an event at 6, or at 4, 6 and 8
        batch = next(data)
        model(batch["x"].to(dtype), batch["labels"])["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()


def test_every_launch_of_every_method_compiles_for_a_gpu(launches, tmp_path):
    for case in FUSED:
        train(case, mgpp.AdamW, torch.float32, **STANDING)
    for case in BESIDE:
        train(case, torch.optim.AdamW, torch.float32)
    train("mgpp-decoupled", mgpp.AdamW, torch.bfloat16, **STANDING)
    events_by_curvature(torch.device("cpu"), lr=0.1, count=1)  # of which a pruner on a CPU makes no launches
    (tmp_path / "launches.json").write_text(json.dumps(list(launches.values())))
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compiling", str(tmp_path / "launches.json")],
        env={**environment, "TRITON_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    compiled = Counter(done.stdout.split()[1::2])
    assert compiled.total() == len(launches)
    told = [(launch["kernel"], launch["constants"]) for launch in launches.values()]
    assert {"none", "magnitude", "curvature"} == {each["SCORE"] for kernel, each in told if kernel == "_adamw_kernel"}
    coarse = {each["SCORE"] for kernel, each in told if kernel == "count_kernel" and each["COARSE"] > 0}
    assert coarse == {"magnitude", "curvature"}
    assert {"_adamw_kernel", "_shrink_by_prior_kernel", "count_kernel", "mask_kernel", "_observe_kernel"} <= set(
        compiled
    )
    assert {"_learn_kernel", "_zero_rows_kernel", "_mask_kernel", "_add_prior_gradient_kernel"} <= set(compiled)
