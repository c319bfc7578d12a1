"""Rows of launches that repeat: recorded once in a CUDA graph, they cost the host one launch instead of fourteen."""

from collections.abc import Callable, Hashable

import torch

from mgpp.kernels.arriving import is_capturing

EAGER = 2  # times that a row runs by itself first: compiling and loading kernels cannot be recorded


class Recorded:
    """Runs rows of launches, each known by a key; what a row reads and writes must always lie in the same place."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._turns: dict[Hashable, int] = {}
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}

    def run(self, key: Hashable, launches: Callable[[], None]) -> None:
        graph = self._graphs.get(key)
        if self._device.type != "cuda" or is_capturing():  # a graph cannot be replayed into another
            launches()
        elif graph is not None:
            graph.replay()
        elif self._turns.get(key, 0) < EAGER:
            self._turns[key] = self._turns.get(key, 0) + 1
            launches()
        else:
            self._graphs[key] = graph = self._record(launches)
            graph.replay()

    def _record(self, launches: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        here = torch.cuda.current_stream(self._device)
        aside = torch.cuda.Stream(self._device)
        aside.wait_stream(here)
        # Not torch.cuda.graph: it waits for the device and empties torch's cache. thread_local: a loader's thread may
        # pin memory meanwhile.
        with torch.cuda.stream(aside):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                launches()
            finally:
                graph.capture_end()
        here.wait_stream(aside)
        return graph
