"""The kernels' tests need Triton, and say so where it is not."""

import pytest
import torch

pytest.importorskip("triton", reason="the kernels need Triton")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
