"""Runs jobs as processes, so many at a time; one that dies takes nothing with it."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch

from mgpp.compare.grid import Cell
from mgpp.run.config import MOST_PROCESSES

PATIENCE = 60  # seconds for a run to stop at a checkpoint, before it is killed


class Job(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def is_finished(self) -> bool: ...


Work = TypeVar("Work", bound=Job)
Launch = Callable[[Work, dict[str, str], Path], subprocess.Popen[bytes]]


def launch(cell: Cell, environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    told = {"config": cell.config.to_dict(), "resume": cell.is_begun}
    return start_process("mgpp.compare.worker", told, environment, log)


def start_process(
    module: str, told: Mapping[str, Any], environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """A session of its own: Ctrl-C reaches this process alone, which passes it on once."""
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(told)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            env={**os.environ, **environment},
            start_new_session=True,
        )


class Pool(Generic[Work]):
    def __init__(self, workers: int, logs: Path, *, launch: Launch[Work]) -> None:
        if not 1 <= workers <= MOST_PROCESSES:
            raise ValueError(f"workers={workers}: at least 1 run at a time, and at most {MOST_PROCESSES:,}")
        self._workers = workers
        self._logs = logs
        self._launch = launch
        self._slots: queue.Queue[int] = queue.Queue()
        for slot in range(workers):
            self._slots.put(slot)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopping = False

    def run(self, jobs: Iterable[Work], ended: Callable[[Work, str | None], None]) -> None:
        """`ended` is told, here and one at a time, of each job and why it failed (None: it did not).

        A job is drawn from `jobs` when a process is free for it, so the next may depend on how the last one ended.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        waiting = iter(jobs)
        running: dict[Future[str | None], Work] = {}
        with ThreadPoolExecutor(self._workers) as threads:
            try:
                while True:
                    while len(running) < self._workers and (job := next(waiting, None)) is not None:
                        running[threads.submit(self._run_one, job)] = job
                    if not running:
                        return
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        ended(running.pop(future), future.result())
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self._stop()
                raise

    def _run_one(self, job: Work) -> str | None:
        slot = self._slots.get()
        log = self._logs / f"{job.name}.log"
        try:
            with self._lock:
                if self._stopping:
                    return "not begun"
                process = self._launch(job, environment(slot, self._workers), log)
                self._running.add(process)
            assert process.stdout is not None
            said = process.stdout.read()
            code = process.wait()
            if process.stdin is not None:
                process.stdin.close()
            return None if code == 0 and job.is_finished else why(code, said, log)
        except OSError as error:
            return f"its process could not be started: {error}"
        finally:
            self._slots.put(slot)

    def _stop(self) -> None:
        with self._lock:  # from here on none is begun
            self._stopping = True
        alive = [process for process in self._running if process.poll() is None]
        for process in alive:
            process.send_signal(signal.SIGINT)
        for process in alive:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def environment(slot: int, workers: int) -> dict[str, str]:
    """The machine's threads divided, and one GPU for each process where there are several."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    threads = str(max(1, (int(given) if given.isdigit() else cores) // workers))
    divided = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = seen.split(",") if seen else [str(number) for number in range(torch.cuda.device_count())]
    return {**divided, "CUDA_VISIBLE_DEVICES": gpus[slot % len(gpus)]} if len(gpus) > 1 else divided


def why(code: int, said: bytes, log: Path) -> str:
    """One line: what the run said of itself, or what its death looks like."""
    lines = said.decode(errors="replace").splitlines()
    try:
        return str(json.loads(lines[-1])["reason"])
    except (IndexError, ValueError, KeyError, TypeError):
        pass
    if code == -signal.SIGKILL:
        return "killed, most likely because the memory was full: fewer --workers, or a smaller --batch-size"
    if code < 0:
        return f"killed by signal {-code}; see {log}"
    return f"ended with exit code {code} before its result was written; see {log}"
