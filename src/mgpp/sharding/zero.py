"""DeepSpeed ZeRO: an optimizer inside DeepSpeed's steps flat float32 tensors, and each process has a piece of each.

DeepSpeed clips, unscales, and then calls the inner optimizer's step once for every flat tensor; what it finds in the
flat tensors afterwards it copies to the model's weights on all processes. So the inner optimizer's hooks are the place
to add a penalty and to prune; only flat tensors that were copied before the last one's step must be copied once more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from mgpp.functional.ranks import Ranks
from mgpp.sharding.group import ranks_of
from mgpp.sharding.parts import Groups, Held, Now, Span, Turn, own_part, whole_size


@dataclass(frozen=True)
class Piece:
    """Where this process's part of a weight lies: in which flat tensor, from where on, and which part it is."""

    flat: int
    start: int
    span: Span


class FlatShards(Held):
    """One of DeepSpeed's optimizers. `weights` and `flats` name its lists of weights and of flat tensors."""

    weights: str
    flats: str
    steps_in_turns = True
    is_writer = True

    def __init__(self, zero: Any, inner: Optimizer, targets: Mapping[str, nn.Parameter]) -> None:
        self.zero, self.inner = zero, inner
        self.engine = f"DeepSpeed ({type(zero).__name__})"
        self._require_in_memory()
        self._targets = list(targets.values())
        self.sizes = [whole_size(param) for param in self._targets]
        flat_of = {id(param): i for i, params in enumerate(getattr(zero, self.weights)) for param in params}
        self._flat_of = [flat_of.get(id(param)) for param in self._targets]
        self._pruned_flats = sorted({flat for flat in self._flat_of if flat is not None})
        self.ranks = self._find_ranks()
        self._groups: Groups = {}

    # What differs between the stages

    def _piece(self, param: Tensor, flat: int) -> Piece:
        mapping = param._hp_mapping  # type: ignore[attr-defined]
        if mapping is None:  # another process has all of it
            return Piece(flat, 0, Span(0, 0))
        inside, start = mapping.get_hp_fragment_address(), mapping.lp_fragment_address.start
        return Piece(flat, inside.start, Span(start, start + inside.numel))

    def _process_group(self, flat: int) -> Any:
        return self.zero.real_dp_process_group[flat]

    def _copy_again(self, flat: int) -> None:
        raise NotImplementedError

    def _copy_everywhere(self) -> None:
        self.zero.update_lp_params()

    # What does not

    def _flat(self, flat: int) -> Tensor:
        return getattr(self.zero, self.flats)[flat]

    @property
    def _pieces(self) -> list[Piece]:
        pairs = zip(self._targets, self._flat_of, strict=True)
        return [Piece(0, 0, Span(0, 0)) if flat is None else self._piece(param, flat) for param, flat in pairs]

    @property
    def spans(self) -> list[Span]:
        return [piece.span for piece in self._pieces]

    def _find_ranks(self) -> Ranks:
        groups = {id(self._process_group(flat)): self._process_group(flat) for flat in self._pruned_flats}
        if len(groups) > 1:
            raise ValueError(
                "the weights to prune are spread over different process groups (mixture of experts): leave the experts "
                "out with exclude="
            )
        return ranks_of(next(iter(groups.values())))

    def _require_in_memory(self) -> None:
        zero = self.zero
        if getattr(zero, "swap_optimizer", False):
            raise ValueError(
                "offload_optimizer to nvme keeps the weights on disk between steps: offload to cpu, or not at all"
            )
        if getattr(zero, "zenflow", False):
            raise ValueError("ZenFlow steps weights outside of the optimizer: leave zenflow out of the config")
        if getattr(zero, "offload_optimizer", False) and getattr(zero, "partial_offload", 1.0) != 1.0:
            raise ValueError(
                f"offload_optimizer with ratio={zero.partial_offload} steps some weights in a second optimizer: set it "
                "to 1"
            )

    @torch.no_grad()
    def now(self, indices: Sequence[int] | None = None) -> Now:
        pieces = self._pieces
        parts, owners, place = [], {}, {}
        for piece in pieces if indices is None else [pieces[i] for i in indices]:
            flat = self._flat(piece.flat)
            part = _cut(flat.detach(), piece)
            if flat.grad is not None:
                part.grad = _cut(flat.grad, piece)
            parts.append(part)
            owners[part], place[part] = flat, piece
        return Now(
            weights=parts,
            ranks=self.ranks,
            sizes=self.sizes,
            owners=owners,
            part_of=lambda weight, state: _cut(state, place[weight]),
            known_groups=self._groups,
        )

    def turn(self, optimizer: Optimizer) -> Turn | None:
        stepping = {id(param): group for group in optimizer.param_groups for param in group["params"]}
        flats = [flat for flat in self._pruned_flats if id(self._flat(flat)) in stepping]
        for flat in flats:  # DeepSpeed shows the optimizer one group at a time
            self._groups[self._flat(flat)] = stepping[id(self._flat(flat))]
        if not flats:
            return None
        indices = [i for i, flat in enumerate(self._flat_of) if flat in flats]
        return Turn(indices, is_last=self._pruned_flats[-1] in flats)

    def untrained(self, optimizer: Optimizer) -> list[int]:
        return [i for i, flat in enumerate(self._flat_of) if flat is None]

    def publish(self, turn: Turn | None) -> None:
        if turn is None:
            self._copy_everywhere()
            return
        still_to_come = {self._flat_of[i] for i in turn.indices}
        for flat in self._pruned_flats:
            if flat not in still_to_come:
                self._copy_again(flat)

    def to_state(self, index: int, part: Tensor) -> Tensor:
        return part

    def from_state(self, index: int, saved: Tensor) -> Tensor:
        return own_part(saved, self.sizes[index], self.spans[index])


class Stage1And2(FlatShards):
    weights, flats = "bit16_groups", "single_partition_of_fp32_groups"

    def _copy_again(self, flat: int) -> None:
        low = self.zero.parallel_partitioned_bit16_groups[flat][self.ranks.rank]
        low.data.copy_(self._flat(flat).data)


class BFloat16(FlatShards):
    weights, flats = "bf16_groups", "fp32_groups_flat_partition"

    def _copy_again(self, flat: int) -> None:
        return  # it steps all flat tensors in one call, and copies after it


class Stage3(FlatShards):
    weights, flats = "fp16_groups", "fp32_partitioned_groups_flat"

    def _piece(self, param: Tensor, flat: int) -> Piece:
        _, start, padded = self.zero.grad_position[self.zero.get_param_id(param)]
        first = self.ranks.rank * int(padded)
        count = min(max(whole_size(param) - first, 0), int(padded))  # the last parts are filled up to the others' size
        return Piece(flat, int(start), Span(first, first + count))

    def _process_group(self, flat: int) -> Any:
        return self.zero.dp_process_group

    def _copy_again(self, flat: int) -> None:
        self.zero._reassign_or_swap_out_partitioned_parameters(flat)

    def _copy_everywhere(self) -> None:
        self.zero._partition_all_parameters()  # small weights are kept whole between steps: drop those, they are old
        for flat in self._pruned_flats:
            self._copy_again(flat)
        if self.zero.persistent_parameters:
            self.zero.persistent_parameters[0].all_gather(self.zero.persistent_parameters)


KINDS: dict[str, type[FlatShards]] = {
    "DeepSpeedZeroOptimizer": Stage1And2,
    "DeepSpeedZeroOptimizer_Stage3": Stage3,
    "BF16_Optimizer": BFloat16,
}


def _cut(flat: Tensor, piece: Piece) -> Tensor:
    return flat.narrow(0, piece.start, piece.span.stop - piece.span.start)
