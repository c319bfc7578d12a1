"""`mgpp finetune`: a sparse model learns a task and stays exactly as sparse, in its files too."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

pytest.importorskip("datasets")

from mgpp.cli import main
from mgpp.run import RunConfig, RunInterrupted, run
from tests.cli.test_prune import RAMP, SHORT, refusal
from tests.run.test_resume import outcome, stop_with
from tests.tiny import PRUNABLE, At


@pytest.fixture(scope="module")
def sparse(tiny_bert, tiny_reviews, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("sparse") / "out"
    assert main(["prune", str(tiny_bert), str(tiny_reviews), "-o", str(output), "-s", "0.75", *SHORT, *RAMP]) == 0
    return output


def zeros_of(folder: Path) -> dict[str, torch.Tensor]:
    saved = load_file(folder / "model.safetensors")
    return {name: weight == 0 for name, weight in saved.items() if "encoder.layer" in name and weight.ndim == 2}


def test_the_mask_is_held_to_the_bit_while_the_model_learns(sparse, tiny_reviews, tmp_path, capsys):
    capsys.readouterr()
    words = ["finetune", str(sparse), str(tiny_reviews), "-o", str(tmp_path / "out"), "--hold-mask"]
    assert main([*words, *SHORT, "--max-steps=200", "--lr=1e-2", "--weight-decay=0.1", "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["zeros"] == result["zeros_before"] == int(0.75 * PRUNABLE)
    assert result["sparsity"] == 0.75
    assert result["after"]["accuracy"] > result["before"]["accuracy"] + 0.1
    assert "3,072 of 4,096 prunable weights are zero already" in err
    before, after = zeros_of(sparse), zeros_of(tmp_path / "out")
    assert all(torch.equal(after[name], mask) for name, mask in before.items())
    card = (tmp_path / "out" / "README.md").read_text()
    assert "with the zeros that it had held: 3,072 of 4,096 prunable weights are zero" in card


def test_without_it_zeros_grow_back(sparse, tiny_reviews, tmp_path, capsys):
    capsys.readouterr()
    assert main(["finetune", str(sparse), str(tiny_reviews), "-o", str(tmp_path / "out"), *SHORT, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["method"], result["zeros_before"]) == (None, int(0.75 * PRUNABLE))
    assert result["sparsity"] < 0.1


def test_the_summary_shows_the_sparsity_before_and_after(sparse, tiny_reviews, tmp_path, capsys):
    capsys.readouterr()
    words = ["finetune", str(sparse), str(tiny_reviews), "-o", str(tmp_path / "out"), "--hold-mask", *SHORT]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "HOLD MASK" in out
    assert out.count("0.750000") == 2


def test_a_dense_model_has_no_mask_to_hold(tiny_bert, tiny_reviews, tmp_path, capsys):
    words = ["finetune", str(tiny_bert), str(tiny_reviews), "-o", str(tmp_path / "out"), "--hold-mask", *SHORT]
    assert "none of the model's weights is zero, there is no mask to hold" in refusal(main(words), capsys)
    assert not (tmp_path / "out").exists()


def test_a_held_run_resumes_to_the_same_bits(sparse, tiny_reviews, tmp_path):
    from mgpp.methods import HoldMask

    def config(output: str) -> RunConfig:
        return RunConfig(
            model=str(sparse),
            data=str(tiny_reviews),
            output=str(tmp_path / output),
            method=HoldMask(),
            max_steps=10,
            batch_size=8,
            learning_rate=5e-3,
            weight_decay=0.1,
            logging_steps=1,
            save_steps=3,
            device="cpu",
        )

    run(config("whole"))
    with pytest.raises(RunInterrupted):
        run(config("out"), callbacks=[At(7, stop_with(KeyboardInterrupt))])
    run(config("out"), resume=True)
    assert outcome(config("out")) == outcome(config("whole"))


def test_a_preset_of_the_second_stage_holds_the_mask_by_itself(sparse, tiny_reviews, tmp_path, capsys):
    preset = tmp_path / "second.toml"
    preset.write_text(f'[run]\ndata = "{tiny_reviews}"\n[method]\nmethod = "hold_mask"\n')
    words = ["finetune", "--preset", str(preset), "--model", str(sparse), "-o", str(tmp_path / "out")]
    capsys.readouterr()
    assert main([*words, *SHORT, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["method"]["method"], result["zeros"]) == ("hold_mask", int(0.75 * PRUNABLE))


def test_a_preset_that_prunes_is_not_for_fine_tuning(tmp_path, capsys):
    assert main(["finetune", "--preset", "bert-base/sst2", "-o", str(tmp_path / "out")]) == 2
    assert "preset bert-base/sst2 prunes: run it with mgpp prune" in capsys.readouterr().err
