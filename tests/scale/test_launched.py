"""The examples as they are launched; and what happens when a process is killed."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch.distributed as dist
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from transformers import AutoModelForSequenceClassification

from mgpp.targets import find_targets
from tests.pages import blocks_of
from tests.scale.processes import survivors_of
from tests.scale.test_fsdp2 import shard
from tests.scale.training import my_batches, start, take_steps
from tests.tiny import save_reviews, save_tiny_bert
from tests.toy import Toy

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "scale"
MINUTE = 60.0


def launch(*words: object) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, env=environment, text=True, start_new_session=True, **pipes)


def torchrun(processes: int, *words: object) -> subprocess.Popen:
    return launch("torch.distributed.run", "--standalone", "--nproc-per-node", processes, *words)


def sparsity_of(folder: Path) -> float:
    weights = find_targets(AutoModelForSequenceClassification.from_pretrained(folder)).values()
    return sum(int((weight == 0).sum()) for weight in weights) / sum(weight.numel() for weight in weights)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("given")
    return save_tiny_bert(folder / "bert"), save_reviews(folder / "reviews") / "train.jsonl"


def kill_one_of(launcher: subprocess.Popen) -> None:
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(launcher.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(children[-1]), signal.SIGKILL)


def test_a_killed_process_ends_the_run_with_its_cause_and_fewer_go_on_from_the_checkpoint(given, tmp_path):
    words = [EXAMPLES / "fsdp2.py", *given, "--output", tmp_path, "--batch-size", 8, "--sparsity", 0.75]
    words += ["--save-steps", 10, "--steps", 60]
    four = torchrun(4, *words)
    while not (tmp_path / "checkpoint-10" / "pruner.safetensors").exists():
        assert four.poll() is None, four.stdout.read()
        time.sleep(0.02)
    kill_one_of(four)
    began = time.monotonic()
    told = four.communicate(timeout=2 * MINUTE)[0]
    assert time.monotonic() - began < MINUTE
    assert four.returncode != 0
    assert "SIGKILL" in told
    assert not (tmp_path / "model.safetensors").exists()

    two = torchrun(2, *words, "--resume")
    told = two.communicate(timeout=2 * MINUTE)[0]
    assert two.returncode == 0, told
    assert re.search(r"resuming after step \d+0\n", told)
    assert "step 60: 0.7500 zero" in told
    assert sparsity_of(tmp_path) == 0.75


def killed(step: int) -> None:
    model = shard(Toy())
    _, optimizer, _ = start("gmp", model)
    data = my_batches()
    take_steps(model, optimizer, data, step)
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    take_steps(model, optimizer, data, 8)


def test_without_a_launcher_the_others_notice_a_killed_process_themselves():
    seconds, words = survivors_of(4, killed, 5)
    assert seconds < MINUTE
    assert len(words) == 3
    assert all("closed" in text.lower() or "reset" in text.lower() for text in words)


def test_accelerate_launches_the_trainer_from_a_config(given, tmp_path):
    config = EXAMPLES / "accelerate" / "ddp-cpu.yaml"
    words = ["accelerate.commands.launch", "--config_file", config, EXAMPLES / "trainer.py", *given, "--cpu"]
    run = launch(*words, "--output", tmp_path, "--batch-size", 4, "--sparsity", 0.75, "--steps", 12)
    told = run.communicate(timeout=2 * MINUTE)[0]
    assert run.returncode == 0, told
    assert sparsity_of(tmp_path) == 0.75


@pytest.mark.parametrize("path", sorted((EXAMPLES / "accelerate").glob("*.yaml")), ids=lambda path: path.stem)
def test_accelerate_reads_every_config(path):
    config = load_config_from_file(str(path))
    assert config.distributed_type.value == yaml.safe_load(path.read_text(encoding="utf-8"))["distributed_type"]
    assert config.num_processes >= 2


def test_the_loop_on_the_page_is_the_examples():
    lines = [line.strip() for line in (EXAMPLES / "fsdp2.py").read_text(encoding="utf-8").splitlines()]
    (block,) = [block for block in blocks_of(ROOT / "docs" / "scale.md") if block.language == "py"]
    assert [line for line in block.text.splitlines() if line.strip() not in lines] == []


def test_the_files_that_the_page_names_are_there():
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    named = set(re.findall(r"examples/scale/[\w/.-]+\w", text))
    assert len(named) >= 11
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_cluster_files_are_sound():
    subprocess.run(["bash", "-n", EXAMPLES / "slurm.sh"], check=True)
    kinds = [part["kind"] for part in yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text(encoding="utf-8"))]
    assert kinds == ["Service", "Job"]
