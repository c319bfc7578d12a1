"""One option for all tests, `--device`, and an environment in which nothing reaches for a network."""

import gc
import os
import shutil
import tempfile

os.environ["HF_DATASETS_CACHE"] = tempfile.mkdtemp(prefix="mgpp-tests-")  # no test's rows in a person's cache
os.environ["MGPP_CACHE"] = tempfile.mkdtemp(prefix="mgpp-tests-")  # nor its kernels
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# A thread that spins while it waits has the core that the others need: 106 s for 1.5 s of work on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

# Without a GPU the kernels run in Triton's interpreter, which must be chosen before anybody imports Triton.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

import pytest
from torch.utils.data import _utils as loading

from tests.tiny import tiny_bert, tiny_corpus, tiny_llama, tiny_reviews  # noqa: F401
from tests.tiny_tasks import tiny_bart, tiny_documents, tiny_questions  # noqa: F401

# How many seconds torch waits for a loader's process to end, before it ends it. Where the garbage collector finds the
# loader, as after an interrupt, its queue is closed first, and nobody tells the process.
loading.MP_STATUS_CHECK_INTERVAL = 0.5

LONG = (
    "tests/scale/", "tests/kernels/test_compiles.py", "tests/compare/", "tests/reliability/", "tests/test_stacks.py",
    "tests/artifact/test_memory.py", "tests/experiments/test_lab.py",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="cpu or cuda: where the numerical tests run")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A process of xdist takes tests from the front and steals them from another's back: what takes long is not left for
    # the end, and what is prepared for a whole file is prepared once.
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


def pytest_collection_finish() -> None:
    # A Trainer collects garbage at the end of every training, and would look through all of torch and transformers.
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()
    for cache in ("HF_DATASETS_CACHE", "MGPP_CACHE"):
        shutil.rmtree(os.environ[cache], ignore_errors=True)


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.config.getoption("--device"))
