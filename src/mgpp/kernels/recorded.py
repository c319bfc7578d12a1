"""Rows of launches that repeat: recorded once in a CUDA graph, they cost the host one launch instead of fourteen."""

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import torch

from mgpp.kernels.arriving import is_capturing

EAGER = 2  # times that a row runs by itself first: compiling and loading kernels cannot be recorded


class Recorded:
    """Runs rows of launches, each known by a key; what a row reads and writes must always lie in the same place."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._turns: dict[Hashable, int] = {}
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph | None] = {}

    def run(self, key: Hashable, launches: Callable[[], None]) -> None:
        if self._device.type != "cuda" or is_capturing():  # a graph cannot be replayed into another
            launches()
            return
        turn = self._turns[key] = self._turns.get(key, 0) + 1
        if turn == EAGER + 1:
            self._graphs[key] = self._record(launches)
        graph = self._graphs.get(key)
        if graph is None:
            launches()
        else:
            graph.replay()

    def _record(self, launches: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """None where it fails, which costs time and nothing else: a recorded launch has not run."""
        graph = torch.cuda.CUDAGraph()
        here = torch.cuda.current_stream(self._device)
        aside = torch.cuda.Stream(self._device)
        aside.wait_stream(here)
        # Not torch.cuda.graph: it waits for the device and empties torch's cache. thread_local: a loader's thread may
        # pin memory meanwhile.
        try:
            with torch.cuda.stream(aside), _no_collection():
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    launches()
                finally:
                    graph.capture_end()
        except RuntimeError:
            return None
        here.wait_stream(aside)
        return graph


@contextmanager
def _no_collection() -> Iterator[None]:
    """Python may free somebody else's device memory at any time, which would spoil the recording."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
