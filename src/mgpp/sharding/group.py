"""Ranks that sum their counts over a process group."""

import torch
import torch.distributed as dist
from torch import Tensor

from mgpp.functional.ranks import ALONE, Ranks


def ranks_of(group: dist.ProcessGroup) -> Ranks:
    """The members of `group`, in its order."""
    size = dist.get_world_size(group)
    if size == 1:
        return ALONE
    device = _device_of(group)

    def sum_(counts: Tensor) -> None:
        sent = counts.to(device)
        try:
            dist.all_reduce(sent, group=group)
        except RuntimeError as error:
            raise RuntimeError(
                f"process {dist.get_rank()} could not count with the {size - 1} others ({error}): one of them has "
                "ended or does not answer, its own output says why"
            ) from error
        if sent is not counts:
            counts.copy_(sent)

    return Ranks(rank=dist.get_rank(group), size=size, sum_=sum_)


def _device_of(group: dist.ProcessGroup) -> torch.device:
    """Where the group can send from: NCCL and its like only from their device."""
    if "gloo" in str(dist.get_backend_config(group)):
        return torch.device("cpu")
    found = torch.accelerator.current_accelerator()
    assert found is not None, f"no device for the process group's {dist.get_backend(group)}"
    return torch.device(found.type, torch.accelerator.current_device_index())
