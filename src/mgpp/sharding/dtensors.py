"""FSDP2: every weight is a DTensor, of which each process holds some rows."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.optim import Optimizer

from mgpp.sharding.group import ranks_of
from mgpp.sharding.parts import Held, Now, Span, Turn, groups_of, own_part


class RowShards(Held):
    engine = "FSDP2"
    steps_in_turns = False

    def __init__(self, targets: Mapping[str, nn.Parameter]) -> None:
        self._params: list[DTensor] = [_require_rows(name, weight) for name, weight in targets.items()]
        first = self._params[0]
        self.sizes = [param.numel() for param in self._params]
        self._dim = first.placements.index(Shard(0))
        self.ranks = ranks_of(first.device_mesh.get_group(self._dim))
        # Of several replicas of the same shards (HSDP) the first writes them.
        place: Sequence[int] = first.device_mesh.get_coordinate() or []
        self.is_writer = all(index == 0 for dim, index in enumerate(place) if dim != self._dim)
        self._turn = Turn(range(len(self._params)), is_last=True)
        for name, param in zip(targets, self._params, strict=True):
            if (param.device_mesh, param.placements) != (first.device_mesh, first.placements):
                raise ValueError(
                    f"{name} is sharded as {param.placements} over {param.device_mesh}, other weights are not: shard "
                    "all weights to prune alike, or leave some out with exclude="
                )

    @property
    def spans(self) -> list[Span]:
        return [self._span(param) for param in self._params]

    def _span(self, param: DTensor) -> Span:
        # As torch.chunk cuts: all parts of the same number of rows, the last ones shorter or empty.
        rows = param.shape[0]
        most = -(-rows // self.ranks.size) * self.ranks.rank
        start = min(rows, most) * (param.numel() // max(1, rows))
        return Span(start, start + param.to_local().numel())

    @torch.no_grad()
    def now(self, indices: Sequence[int] | None = None) -> Now:
        params = self._params if indices is None else [self._params[i] for i in indices]
        parts = [_part_of(param) for param in params]
        return Now(
            weights=parts,
            ranks=self.ranks,
            sizes=self.sizes,
            owners=dict(zip(parts, params, strict=True)),
            part_of=lambda weight, state: state.to_local() if isinstance(state, DTensor) else state,
        )

    def turn(self, optimizer: Optimizer) -> Turn:
        return self._turn

    def untrained(self, optimizer: Optimizer) -> list[int]:
        trained = groups_of(optimizer)
        return [i for i, param in enumerate(self._params) if param not in trained]

    def publish(self, turn: Turn | None) -> None:
        return

    def to_state(self, index: int, part: Tensor) -> Tensor:
        param = self._params[index]
        return DTensor.from_local(
            part, param.device_mesh, param.placements, run_check=False, shape=param.shape, stride=param.stride()
        )

    def from_state(self, index: int, saved: Tensor) -> Tensor:
        if isinstance(saved, DTensor):
            return saved.to_local()
        return own_part(saved, self.sizes[index], self.spans[index]).view(self._params[index].to_local().shape)


def _require_rows(name: str, weight: Tensor) -> DTensor:
    cure = "shard it with fully_shard as it is by default, or leave it out with exclude="
    if not isinstance(weight, DTensor):
        raise ValueError(f"{name} is not sharded and other weights are: {cure}")
    shards = [placement for placement in weight.placements if not isinstance(placement, Replicate)]
    # A class of its own stands for shards of shards (tensor parallel under FSDP): their rows are not in order.
    if len(shards) != 1 or type(shards[0]) is not Shard or shards[0].dim != 0:
        raise ValueError(
            f"{name} is sharded as {weight.placements}: only rows (Shard(0)), over one dimension of the mesh, keep the "
            f"weights in order; {cure}"
        )
    return weight


def _part_of(param: DTensor) -> Tensor:
    part = param.to_local().detach()  # a tensor of its own: FSDP's must not be given a gradient
    grad = param.grad
    if grad is not None:
        part.grad = grad.to_local() if isinstance(grad, DTensor) else grad
    return part
