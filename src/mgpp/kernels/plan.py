"""What a pruner asks of an optimizer that can take its work along."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from mgpp.functional.adamw import Pull


@dataclass
class Count:
    """A request to count the targets' new scores in the optimizer's pass, for the event that follows it."""

    selection: Any
    done: int = 0  # how many tensors have been counted


@dataclass
class Plan:
    """The next step's extra work: the prior's pull on `targets`, and a count of their scores.

    `reads_gradients`: the pruner looks at the gradients after the step. A launch that adds the prior's to them as it
    goes leaves none of it there, so a coupled prior must not be asked of it.
    """

    targets: frozenset[Tensor] = frozenset()
    reads_gradients: bool = False
    pull: Pull | None = None
    count: Count | None = None

    def clear(self) -> None:
        self.pull, self.count = None, None
