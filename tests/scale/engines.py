"""DeepSpeed, where it is: in the environment, or by itself in a folder beside it (`make` puts it there).

By itself, because transformers and accelerate import it wherever they find it, which costs every other test seconds.
"""

import importlib.util
import sys
from pathlib import Path

BESIDE = Path(sys.prefix) / "deepspeed"


def has_deepspeed() -> bool:
    return importlib.util.find_spec("deepspeed") is not None or (BESIDE / "deepspeed").is_dir()


def import_deepspeed() -> None:
    """In a process that will train with it."""
    if importlib.util.find_spec("deepspeed") is None:
        sys.path.append(str(BESIDE))
    import deepspeed

    # Compiled on first use, which takes minutes; without it gloo sends what it would have.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
