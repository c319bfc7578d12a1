"""Which engine trains these weights: found out from the weights and the optimizer."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from mgpp.sharding.parts import Held, OutOfReach, Whole


def hold(targets: Mapping[str, nn.Parameter], optimizer: Any = None) -> Held:
    """`optimizer` as the user has it: a DeepSpeed engine, or an optimizer in whatever wrapping."""
    if any(hasattr(weight, "placements") for weight in targets.values()):
        from mgpp.sharding.dtensors import RowShards  # torch's DTensors take half a second to import

        return RowShards(targets)
    for wrapper in _wrappers(optimizer):
        if _is_deepspeed(wrapper):
            return _hold_zero(wrapper, targets)
    partitioned = any(hasattr(weight, "ds_id") for weight in targets.values())
    return (OutOfReach if partitioned else Whole)(list(targets.values()))


def _hold_zero(wrapper: Any, targets: Mapping[str, nn.Parameter]) -> Held:
    from mgpp.sharding.zero import KINDS

    kind = KINDS.get(type(wrapper).__name__)
    if kind is None:
        raise ValueError(
            f"{type(wrapper).__name__} keeps the weights in a way that is not known here: use ZeRO stage 1, 2 or 3 "
            '("zero_optimization": {"stage": 1}), or train in float32 without ZeRO'
        )
    return kind(wrapper, stepping_optimizer(wrapper), targets)


def stepping_optimizer(optimizer: Any) -> Optimizer:
    """The optimizer whose step moves the weights: inside Accelerate's and DeepSpeed's, which only lead to it."""
    return _wrappers(optimizer)[-1]


def _wrappers(optimizer: Any) -> list[Any]:
    chain = [optimizer]
    while type(chain[-1]).__module__.startswith(("accelerate.", "deepspeed.")) and hasattr(chain[-1], "optimizer"):
        chain.append(chain[-1].optimizer)
    return chain


def _is_deepspeed(wrapper: Any) -> bool:
    # Not the engine, which only leads to its optimizer; nor its own Adam and Lion, which are torch Optimizers.
    module = type(wrapper).__module__
    return module.startswith("deepspeed.runtime.") and not isinstance(wrapper, Optimizer | nn.Module)


def local_gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    """What this process has of them."""
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return [grad.to_local() if hasattr(grad, "to_local") else grad for grad in grads]


def engine_of(model: nn.Module) -> str | None:
    """Who has sharded the model, as far as it shows before there is an optimizer; FSDP1 is refused."""
    for module in model.modules():
        # By name: the class need not be imported to be recognised.
        if type(module).__name__ == "FullyShardedDataParallel":
            raise ValueError(
                "the model is sharded by FSDP1, which keeps many weights in one flat tensor: use FSDP2 "
                "(torch.distributed.fsdp.fully_shard, or fsdp_version: 2 in the accelerate config)"
            )
    for parameter in model.parameters():
        if hasattr(parameter, "placements"):
            return "FSDP2"
        if hasattr(parameter, "ds_id") or hasattr(parameter, "_hp_mapping"):
            return "DeepSpeed"
    return None
