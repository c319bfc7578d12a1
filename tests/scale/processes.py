"""Several processes that train together over gloo, started quickly: one server has imported all, and is forked."""

import multiprocessing
import os
import socket
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.scale.engines import see_deepspeed

PRELOADED = ["tests.scale.preload"]
LONGEST = 150  # seconds; a launch takes a few, and a hang must not take a test run with it

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(PRELOADED)


def run_processes(size: int, act: Callable[..., Any], *args: Any, backend: str = "gloo") -> list[Any]:
    """`act(*args)` in each of `size` processes of one group; what each returned."""
    with tempfile.TemporaryDirectory(prefix="mgpp-ranks-") as folder:
        processes = _start(size, folder, act, args, backend)
        _wait(processes, patience=5)
        failures = _failures(folder)
        assert not failures, "\n".join(failures)
        codes = [process.exitcode for process in processes]
        assert codes == [0] * size, f"exit codes {codes}"
        return [torch.load(Path(folder) / f"{rank}.pt", weights_only=False) for rank in range(size)]


def survivors_of(size: int, act: Callable[..., Any], *args: Any) -> tuple[float, list[str]]:
    """How many seconds after the first had gone the last has, and what the others said."""
    with tempfile.TemporaryDirectory(prefix="mgpp-ranks-") as folder:
        processes = _start(size, folder, act, args)
        while all(process.is_alive() for process in processes):
            time.sleep(0.01)
        began = time.monotonic()
        _wait(processes, patience=LONGEST)
        return time.monotonic() - began, _failures(folder)


def _start(size: int, folder: str, act: Callable[..., Any], args: tuple[Any, ...], backend: str = "gloo") -> list[Any]:
    port = free_port()
    made = [
        _CONTEXT.Process(target=_enter, args=(rank, size, port, folder, backend, act, args), daemon=True)
        for rank in range(size)
    ]
    for process in made:
        process.start()
    return made


def _wait(processes: list[Any], *, patience: float) -> None:
    """`patience`: seconds for the others, once one has failed."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end and any(process.is_alive() for process in processes):
        if any(process.exitcode not in (None, 0) for process in processes):
            end, patience = min(end, time.monotonic() + patience), LONGEST
        time.sleep(0.02)
    for process in processes:
        process.kill()
        process.join()


def _failures(folder: str) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob("*.failed"))]


def _enter(
    rank: int, size: int, port: int, folder: str, backend: str, act: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    torch.set_num_threads(1)
    see_deepspeed()  # the server has, but a forked process starts with its parent's path
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "DS_ACCELERATOR": "cpu",
    }  # fmt: skip
    try:
        if "nccl" in backend:
            torch.cuda.set_device(rank)
        dist.init_process_group(backend, rank=rank, world_size=size)
        torch.save(act(*args), Path(folder) / f"{rank}.pt")
        dist.barrier()
    except BaseException:
        (Path(folder) / f"{rank}.failed").write_text(f"rank {rank}: {traceback.format_exc()}", encoding="utf-8")
        os._exit(1)
    os._exit(0)  # without gloo's and DeepSpeed's own way out, which may wait for others or abort


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]
