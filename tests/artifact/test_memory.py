"""Loading takes the model's own memory and little beside it: never two copies."""

import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from mgpp.artifact import save_sparse
from tests.artifact.models import make, zero_out

# A process of its own, which gives back to the system what it has freed: else that would hide what loading takes.
PROGRAM = """
import ctypes, sys
from mgpp.artifact import load_sparse

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))

load_sparse(sys.argv[1])  # what is imported and set up once is not the model's
for folder in sys.argv[2:]:
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak is counted from here
    before = status("VmRSS")
    load_sparse(folder)
    print(status("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_the_peak_is_one_copy_and_a_part_of_one_tensor(tmp_path):
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=384, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1536, vocab_size=16_000
    )
    model = LlamaForCausalLM(config)  # 87 MB; its largest tensors, of 25 MB, come first and last
    zero_out(model, 0.9)
    ways = {"exact": {}, "int8": {"values": "int8", "embeddings": "int8"}}
    if find_spec("zstandard") is not None:
        ways["zstd"] = {"zstd": True}
    for name, options in ways.items():
        save_sparse(model, tmp_path / name, **options)
    save_sparse(make("llama, bf16"), tmp_path / "tiny", zstd="zstd" in ways)
    folders = [str(tmp_path / name) for name in ("tiny", *ways)]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *folders], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    needed = sum(tensor.nbytes for tensor in model.parameters())
    for name, peak in zip(ways, map(int, done.stdout.split()), strict=True):
        assert 0.8 * needed < peak < 1.4 * needed, (name, peak, needed)
