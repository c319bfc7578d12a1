"""What TensorBoard and its like see of a training, and that nobody else is flooded with it."""

from pathlib import Path

import pytest
from transformers import Trainer, TrainerCallback

import mgpp
from mgpp import records
from tests.test_contract import RAMP, STEPS
from tests.test_trainer import arguments
from tests.toy import Toy, rows


class Listener(TrainerCallback):
    """Stands where printers stand: behind all others."""

    def __init__(self) -> None:
        self.heard: list[dict] = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.heard.append(dict(logs or {}))


def train(folder: Path, method, *callbacks: TrainerCallback, **more) -> mgpp.PruningCallback:
    pruning = mgpp.PruningCallback(method)
    args = arguments(folder, **more)
    Trainer(model=Toy(), args=args, train_dataset=rows(), callbacks=[pruning, *callbacks]).train()
    return pruning


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seen = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    seen.Reload()
    return {tag: [(point.step, point.value) for point in seen.Scalars(tag)] for tag in seen.Tags()["scalars"]}


@pytest.fixture
def tensorboard(tmp_path, monkeypatch) -> Path:
    pytest.importorskip("tensorboard")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    return tmp_path / "board"


def test_tensorboard_gets_what_the_records_say(tensorboard, tmp_path):
    train(tmp_path, mgpp.MGPP(**RAMP, spike_var=1e-4), report_to=["tensorboard"])
    seen = scalars(tensorboard)
    told = records.read(tmp_path / "records.jsonl")
    events = {record["step"]: record for record in told if record["event"] == "prune"}
    for name in ("sparsity", "cut"):
        points = dict(seen[f"train/{name}"])
        assert {step: points[step] for step in events} == pytest.approx({t: e[name] for t, e in events.items()})
    assert dict(seen["train/prior_warm_up"])[2] == pytest.approx(2 / 4)
    looks = {step: record["look"] for step, record in events.items()}
    came_back = dict(seen["train/came_back"])
    assert came_back[STEPS] == pytest.approx(looks[STEPS]["came_back"])
    assert dict(seen["train/in_spike"])[STEPS] == pytest.approx(looks[STEPS]["in_spike"])
    for name, count in told[0]["weights"].items():
        points = dict(seen[f"train/layer_sparsity/{name}"])
        assert points[STEPS] == pytest.approx(events[STEPS]["zeros"][name] / count)


def test_a_method_without_a_prior_is_tracked_without_one(tensorboard, tmp_path):
    train(tmp_path, mgpp.GMP(**RAMP), report_to=["tensorboard"])
    seen = scalars(tensorboard)
    assert "train/sparsity" in seen
    assert not {"train/prior_warm_up", "train/half_width", "train/in_spike"} & seen.keys()


def test_printers_hear_sparsity_and_cut_and_no_layers(tensorboard, tmp_path):
    listener = Listener()
    train(tmp_path, mgpp.GMP(**RAMP), listener, report_to=["tensorboard"])
    assert {"sparsity", "cut"} <= listener.heard[-1].keys()
    assert not [name for logs in listener.heard for name in logs if "layer" in name]


def test_without_trackers_nothing_is_told_and_nothing_fails(tmp_path):
    pruning = train(tmp_path, mgpp.GMP(**RAMP))
    assert pruning._trackers.found() == []


def test_every_tracker_that_the_trainer_knows_is_told(tmp_path, monkeypatch):
    """wandb and mlflow are heavy: a stand-in takes wandb's place in the Trainer's own table."""
    from transformers.integrations import integration_utils

    class Pretended(Listener):
        pass

    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "wandb", Pretended)
    monkeypatch.setattr(integration_utils, "is_wandb_available", lambda: True)
    found = []
    original = Pretended.__init__
    monkeypatch.setattr(Pretended, "__init__", lambda self: (original(self), found.append(self))[0])
    train(tmp_path, mgpp.MGPP(**RAMP), report_to=["wandb"])
    told = [logs for logs in found[0].heard if "cut" in logs]
    assert told[-1]["sparsity"] == 0.75
    assert sum(name.startswith("layer_sparsity/") for name in told[-1]) == 4
