"""A pruner's state on disk: one file, or one of each process that holds a part of the weights, and one that names them.

The file that names the others is written last and in one move: a folder that has it has all. What was saved by so many
processes is read by any other number, each reading the stretches that it holds.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from mgpp.functional.ranks import Ranks
from mgpp.sharding import Span

STATE_FILE = "pruner.safetensors"

Spans = Mapping[str, Span]


@dataclass(frozen=True)
class Shard:
    """Which part of the weights this process holds, and with whom it shares them."""

    spans: Spans
    ranks: Ranks
    is_writer: bool = True


def write_state(state: Mapping[str, Any], folder: Path, *, shard: Shard | None = None) -> None:
    """Save a pruner's state, whole or not at all; where it is sharded, every process saves its own."""
    memory, survey = state["memory"], {"survey": state.get("survey", {})}
    index = {key: value for key, value in state.items() if key not in ("memory", "survey")}
    folder.mkdir(parents=True, exist_ok=True)
    if shard is None:
        _write(folder / STATE_FILE, _flat({**memory, **survey}), index)
        return
    if memory:
        names = [_part_name(state["t"], rank, shard.ranks.size) for rank in range(shard.ranks.size)]
        index["parts"] = names
        if shard.is_writer:
            own = {kind: {name: tensor.flatten() for name, tensor in of.items()} for kind, of in memory.items()}
            _write(folder / names[shard.ranks.rank], _flat(own), {"spans": shard.spans})
    shard.ranks.sum_(torch.zeros(1, dtype=torch.int64))  # all parts are there
    if shard.ranks.rank == 0 and shard.is_writer:
        _write(folder / STATE_FILE, _flat(survey), index)
        for path in set(folder.glob("pruner-*-of-*.safetensors")) - {folder / name for name in index.get("parts", ())}:
            path.unlink()  # of an earlier save into the same folder


def read_state(folder: Path, spans: Spans | None = None) -> dict[str, Any]:
    """The state that was saved in `folder`; of the weights' tensors only `spans`, where they are given."""
    path = folder / STATE_FILE
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is not there: the checkpoint was not finished, or lies elsewhere (resume from an earlier one, or "
            "pass PruningCallback(resume_from=folder))"
        )
    with safe_open(path, framework="pt") as file:
        state: dict[str, Any] = json.loads(file.metadata()["mgpp"])
        parts = state.pop("parts", None)
        memory = _read_whole(file, spans)
    if "survey" in memory:
        state["survey"] = memory.pop("survey")
    if parts is not None:
        memory = _read_parts([folder / Path(name).name for name in parts], spans)
    return {**state, "memory": memory}


def _part_name(t: int, rank: int, size: int) -> str:
    return f"pruner-{t}-{rank + 1:05}-of-{size:05}.safetensors"


def _flat(memory: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {f"{kind}/{name}": tensor for kind, of in memory.items() for name, tensor in of.items()}


def _write(path: Path, tensors: dict[str, Tensor], notes: Mapping[str, Any]) -> None:
    draft = path.with_name(f"{path.name}.draft")
    save_file(tensors, draft, metadata={"mgpp": json.dumps(notes)})
    os.replace(draft, path)


def _keys(file: Any) -> Iterator[tuple[str, str, str]]:
    for key in file.keys():  # noqa: SIM118 (not a dict: it has no other way to iterate)
        yield (key, *key.split("/", 1))


def _read_whole(file: Any, spans: Spans | None) -> dict[str, dict[str, Tensor]]:
    memory: dict[str, dict[str, Tensor]] = {}
    for key, kind, name in _keys(file):
        tensor = file.get_tensor(key)
        if spans is not None and kind != "survey":
            tensor = tensor.flatten()[slice(*spans[name])].clone()  # so that the rest of it can go
        memory.setdefault(kind, {})[name] = tensor
    return memory


def _read_parts(paths: list[Path], spans: Spans | None) -> dict[str, dict[str, Tensor]]:
    found: dict[str, dict[str, list[Tensor]]] = {}
    with ExitStack() as stack:
        files = [stack.enter_context(safe_open(_present(path), framework="pt")) for path in paths]
        for file in files:  # in the order of the ranks, which is the order of the elements
            theirs = json.loads(file.metadata()["mgpp"])["spans"]
            for key, kind, name in _keys(file):
                start, stop = theirs[name]
                first, last = (start, stop) if spans is None else spans[name]
                low, high = max(start, first), min(stop, last)
                pieces = found.setdefault(kind, {}).setdefault(name, [])
                if low < high:
                    pieces.append(file.get_slice(key)[low - start : high - start])
                elif not pieces:
                    pieces.append(file.get_slice(key)[:0])  # for its dtype
    return {kind: {name: torch.cat(pieces) for name, pieces in of.items()} for kind, of in found.items()}


def _present(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is not there: every process has saved a part, and all are needed (one folder on a disk that all "
            "machines share)"
        )
    return path
