"""A run trains with mgpp's AdamW unless it is told to take another, and learns the same with torch's."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

pytest.importorskip("datasets")

import mgpp
from mgpp.run import RunConfig, RunInterrupted, run
from tests.run.test_resume import stop_with
from tests.tiny import RAMP, At

METHODS = {
    "dense": None,
    "paper's form": mgpp.MGPP(**RAMP, spike_var=1e-4),
    "recommended": mgpp.recommended(**RAMP),
    "held": mgpp.GMP(**RAMP, hold=True),
    "low rank": mgpp.LoSparse(**RAMP),
}


class Seen(TrainerCallback):
    """The optimizer that was at work."""

    optimizer: torch.optim.Optimizer

    def on_train_begin(self, args, state, control, optimizer, **kwargs):
        self.optimizer = optimizer.optimizer

    def groups(self) -> list[dict]:
        """Their settings, and which sizes their parameters have."""
        return [
            {name: group[name] for name in ("initial_lr", "betas", "eps", "weight_decay")}
            | {"sizes": [param.numel() for param in group["params"]]}
            for group in self.optimizer.param_groups
        ]


def trained(config: RunConfig, **more) -> Seen:
    seen = Seen()
    run(replace(config, **more), callbacks=[seen])
    return seen


@pytest.mark.parametrize("method", [None, mgpp.recommended(**RAMP)], ids=["dense", "recommended"])
def test_a_run_trains_with_our_adamw_by_default(method, config):
    assert type(trained(config, method=method).optimizer) is mgpp.AdamW
    assert json.loads((Path(config.output) / "result.json").read_text())["config"]["optimizer"] == "mgpp"


@pytest.mark.parametrize("name", ["adamw_torch", "adamw_torch_fused"])
def test_torchs_is_taken_when_it_is_asked_for(name, config):
    seen = trained(config, optimizer=name)
    assert type(seen.optimizer) is torch.optim.AdamW
    assert bool(seen.optimizer.defaults["fused"]) == (name == "adamw_torch_fused")
    assert json.loads((Path(config.output) / "result.json").read_text())["config"]["optimizer"] == name


def test_a_model_that_writes_text_trains_with_it_too(config, tiny_bart, tiny_documents):
    pytest.importorskip("rouge_score")
    writing = {"task": "summarization", "model": str(tiny_bart), "data": str(tiny_documents)}
    seen = trained(config, **writing, max_length=32, target_length=8, beams=1, max_steps=9)
    assert type(seen.optimizer) is mgpp.AdamW


def test_a_model_with_a_teacher_trains_with_it_too(config, tmp_path):
    run(replace(config, method=None, output=str(tmp_path / "teacher")))
    seen = trained(config, teacher=str(tmp_path / "teacher"))
    assert type(seen.optimizer) is mgpp.AdamW


def test_biases_and_norms_do_not_decay_whichever_it_is(config, tmp_path):
    ours = trained(config, weight_decay=0.1)
    theirs = trained(config, weight_decay=0.1, optimizer="adamw_torch", output=str(tmp_path / "torch"))
    assert ours.groups() == theirs.groups()
    assert [group["weight_decay"] for group in ours.groups()] == [0.1, 0.0]
    assert ours.groups()[0]["initial_lr"] == config.learning_rate


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("more", [{}, {"accumulate": 2, "precision": "bf16", "max_grad_norm": 0.1}], ids=str)
def test_a_few_steps_lead_where_torchs_lead(method, more, config, tmp_path):
    config = replace(config, method=method, weight_decay=0.1, max_steps=8, learning_rate=1e-3, **more)
    theirs = replace(config, optimizer="adamw_torch", output=str(tmp_path / "torch"))
    results = run(config), run(theirs)
    assert results[0]["zeros"] == results[1]["zeros"]
    ours, torchs = (load_file(Path(one.output) / "model.safetensors") for one in (config, theirs))
    for name, weight in torchs.items():  # a hundredth of one step's length is let pass
        torch.testing.assert_close(ours[name], weight, rtol=0, atol=1e-5, msg=name)


def test_our_adamw_and_torchs_are_two_runs_and_the_refusal_says_which_it_was(config):
    with pytest.raises(RunInterrupted):
        run(replace(config, optimizer="adamw_torch"), callbacks=[At(4, stop_with(KeyboardInterrupt))])
    with pytest.raises(ValueError, match=r"is another one \(optimizer: was adamw_torch, now mgpp\): resume with its"):
        run(config, resume=True)
    assert run(replace(config, optimizer="adamw_torch"), resume=True)["steps"] == 10


@pytest.mark.parametrize("name", ["torch", "adamw_tork", "MGPP", ""])
def test_a_name_that_nobody_knows_is_refused_before_anything_is_written(name, config):
    with pytest.raises(ValueError, match=rf"^optimizer={name}: it must be mgpp, or a name .* such as adamw_torch$"):
        run(replace(config, optimizer=name))
    assert not Path(config.output).exists()
