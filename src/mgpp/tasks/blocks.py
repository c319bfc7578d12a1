"""Packed blocks as data sets: one that lies on disk and is drawn from anew every epoch, and one that streams."""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, Sampler

from mgpp.tasks.packing import NOTHING, Packing, grouped
from mgpp.tasks.rows import read_stream

if TYPE_CHECKING:
    import datasets

Features = dict[str, np.ndarray]
Form = Callable[[np.ndarray, int], Features]
Item = TypeVar("Item")

# Of a stream: blocks read ahead, documents among which the next is drawn, documents tokenised at once.
AHEAD = 512
SHUFFLED = 1_000
TOGETHER = 64


class Blocks(Dataset[Features]):
    """Row `i` is block `i` mod n; each time round, `form` may make something else of it."""

    def __init__(self, rows: "datasets.Dataset", form: Form) -> None:
        self._rows = rows.with_format("numpy")
        self._form = form

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> Features:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Features]:
        ids = self._rows[[row % len(self) for row in rows]]["input_ids"]
        return [self._form(block, row) for block, row in zip(ids, rows, strict=True)]


class EveryTime(Sampler[int]):
    """A new order of all rows every epoch, numbered on from the last epoch's: (seed, epoch) alone decide."""

    def __init__(self, rows: int, *, seed: int) -> None:
        self.rows, self.seed, self.epoch = rows, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(self.rows, generator=torch.Generator().manual_seed(self.seed + self.epoch))
        yield from (order + self.epoch * self.rows).tolist()


class Stream(IterableDataset[Features]):
    """Blocks without end, over and over the documents, in a new order each time round; a few of them are in memory.

    It reads ahead in a thread: tokenizers work outside Python's lock and on all cores, and in several processes each
    would have to read everything.
    """

    def __init__(
        self, documents: "datasets.IterableDataset", *, column: str, packing: Packing, form: Form, seed: int
    ) -> None:
        self._documents = documents.shuffle(seed=seed, buffer_size=SHUFFLED)
        self._column, self._packing, self._form = column, packing, form

    def __iter__(self) -> Iterator[Features]:
        return read_ahead(self.blocks(), AHEAD)

    def blocks(self) -> Iterator[Features]:
        numbers, rest = count(), NOTHING
        for turn in count():
            self._documents.set_epoch(turn)
            number = None
            for texts in grouped(self._texts(), TOGETHER):
                blocks, rest = self._packing.blocks(np.concatenate([rest, self._packing.tokens(texts)]))
                for block in blocks:
                    number = next(numbers)
                    yield self._form(block, number)
            if number is None:
                raise ValueError(
                    "the stream, without what is held out of it, holds less text than one block of "
                    f"max_length={self._packing.length} tokens: give more, or lower --max-length"
                )

    def _texts(self) -> Iterator[str]:
        for number, document in enumerate(read_stream(self._documents)):
            text = document[self._column]
            if not isinstance(text, str):
                raise ValueError(f"document {number} of the stream: {self._column}={text!r} is no text; drop it")
            yield text


def read_ahead(items: Iterator[Item], size: int) -> Iterator[Item]:
    """The same items, while a thread goes on to the next ones; what it meets is raised here."""
    waiting: queue.Queue[tuple[Item | None, BaseException | None]] = queue.Queue(size)
    stopped = threading.Event()

    def put(item: Item | None, error: BaseException | None) -> None:
        while not stopped.is_set():
            with suppress(queue.Full):
                waiting.put((item, error), timeout=0.1)
                return

    def read() -> None:
        try:
            for item in items:
                put(item, None)
                if stopped.is_set():
                    return
            put(None, StopIteration())
        except BaseException as error:
            put(None, error)

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            item, error = waiting.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]
    finally:
        stopped.set()


def stack(features: list[Features]) -> dict[str, Any]:
    return {name: torch.from_numpy(np.stack([row[name] for row in features]).astype(np.int64)) for name in features[0]}
