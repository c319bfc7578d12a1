"""DeepSpeed, where it is: in the environment, or by itself in a folder beside it (`make` puts it there).

By itself, because transformers and accelerate import it wherever they find it, which costs every other test seconds.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

BESIDE = Path(sys.prefix) / "deepspeed"


def has_deepspeed() -> bool:
    return PathFinder.find_spec("deepspeed") is not None or (BESIDE / "deepspeed").is_dir()


def see_deepspeed() -> None:
    # Not importlib.util's, which is content with what is imported: its version must be readable, too.
    if PathFinder.find_spec("deepspeed") is None and has_deepspeed():
        sys.path.append(str(BESIDE))


def import_deepspeed() -> None:
    """In a process that will train with it."""
    see_deepspeed()
    import deepspeed

    # Compiled on first use, which takes minutes; without it gloo sends what it would have.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
