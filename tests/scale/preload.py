"""Imported once by the server that the processes of these tests are forked from."""

import gc
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["DS_ACCELERATOR"] = "cpu"

from tests.scale.engines import has_deepspeed, import_deepspeed

if has_deepspeed():
    import_deepspeed()

import torch.distributed.checkpoint
import torch.distributed.fsdp
import transformers

import mgpp
from tests.test_contract import CASES

torch.optim.AdamW([torch.zeros(1)])  # imports torch's compiler
assert transformers.Trainer
assert mgpp.PruningCallback
assert CASES
gc.freeze()  # DeepSpeed and the Trainer collect garbage, and would look through all of this
