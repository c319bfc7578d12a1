"""What the rest of a run depends on, beside the weights and the optimizer's state: taken, saved and brought back."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from mgpp.checkpoint import Shard, read_state, write_state
from mgpp.methods import Method, to_dict
from mgpp.methods.memory import Memory
from mgpp.methods.times import Run
from mgpp.sharding import Held, Span
from mgpp.survey import Survey

Tensors = Mapping[str, Mapping[str, Tensor]]


class State:
    """Of a run of `method` over the weights called `names`. `held` is what this process holds of them at the time."""

    def __init__(
        self, method: Method, run: Run, *, names: Sequence[str], memory: Memory, survey: Survey | None
    ) -> None:
        self.method, self.run = method, run
        self.names, self.memory, self.survey = list(names), memory, survey

    def at(self, t: int, held: Held) -> dict[str, Any]:
        """After step t. What is kept for sharded weights is in the form in which their engine gives it out."""
        return {**self._without_memory(t, held), "memory": self._each(self.memory.state_dict(), held.to_state)}

    def bring_back(self, state: Mapping[str, Any], held: Held) -> int:
        """And return the step after which it was taken. Another run's is refused, difference shown."""
        _require_same(state["settings"], self._settings(held))
        self.memory.load_state_dict(self._each(state["memory"], held.from_state))
        if self.survey is not None:
            self.survey.load_state_dict(state.get("survey", {}), held.now().weights)
        return int(state["t"])

    def save(self, folder: Path, t: int, held: Held) -> None:
        shard = None if held.engine is None else Shard(self._spans(held), held.ranks, held.is_writer)
        write_state({**self._without_memory(t, held), "memory": self.memory.state_dict()}, folder, shard=shard)

    def load(self, folder: Path, held: Held) -> int:
        return self.bring_back(read_state(folder, None if held.engine is None else self._spans(held)), held)

    def _without_memory(self, t: int, held: Held) -> dict[str, Any]:
        known = {"t": t, "settings": self._settings(held)}
        return known if self.survey is None else {**known, "survey": self.survey.state_dict(held.now().weights)}

    def _settings(self, held: Held) -> dict[str, Any]:
        return {
            **to_dict(self.method),
            "total_steps": self.run.total_steps,
            "train_size": self.run.train_size,
            "num_weights": sum(held.sizes),
        }

    def _each(self, memory: Tensors, how: Callable[[int, Tensor], Tensor]) -> dict[str, dict[str, Tensor]]:
        return {kind: {name: how(i, of[name]) for i, name in enumerate(self.names)} for kind, of in memory.items()}

    def _spans(self, held: Held) -> dict[str, Span]:
        return dict(zip(self.names, held.spans, strict=True))


def _require_same(saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    differing = sorted(key for key in now.keys() | saved.keys() if now.get(key) != saved.get(key))
    if differing:
        shown = "; ".join(f"{key}: saved {saved.get(key)}, now {now.get(key)}" for key in differing)
        # Experts were no targets once: a run that began then goes on by leaving them out.
        cure = "prune the same weights by include= and exclude=" if differing == ["num_weights"] else "use its settings"
        raise ValueError(f"the saved run is another one ({shown}): {cure}, or start anew")
