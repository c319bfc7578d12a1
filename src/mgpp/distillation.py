"""A Trainer whose model also learns from a teacher; pruning comes with its callback, as anywhere."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer
from transformers.loss.loss_utils import LOSS_MAPPING, ForCausalLMLoss
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from mgpp.functional.distillation import distillation_loss, labelled_loss, mean_over, soft_label_loss, squared_error

IGNORED = -100
_LOGITS = ("logits", "start_logits", "end_logits")


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """(1 - `weight`)·task + `weight`·T²·KL(teacher ‖ student) + `hidden_weight`·(squared error of hidden states)."""

    temperature: float = 2.0
    weight: float = 0.5
    hidden_weight: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature={self.temperature}: it must be a number greater than 0")
        if not 0 <= self.weight <= 1:
            raise ValueError(f"weight={self.weight}: the teacher's share of the loss, in [0, 1]")
        if not (math.isfinite(self.hidden_weight) and self.hidden_weight >= 0):
            raise ValueError(f"hidden_weight={self.hidden_weight}: it must be a number, at least 0")


class DistillationTrainer(Trainer):
    """`Trainer(...)` with a `teacher`: a model with the same head, in whatever size.

    An output of numbers (regression) is learned by squared error in the place of soft labels. Hidden states are
    compared layer by layer where student and teacher have as many, else the last ones; padding and labels of -100
    count nowhere. A share of a classifier's rows, `unlabelled`, may have no label (-1, or NaN for a number): those the
    teacher alone answers. It is only read: in eval mode, without gradients, and in no checkpoint. What is logged as
    `loss` is the sum; evaluation tells the task's loss alone.
    """

    def __init__(
        self,
        *args: Any,
        teacher: nn.Module,
        temperature: float = 2.0,
        weight: float = 0.5,
        hidden_weight: float = 0.0,
        unlabelled: float = 0.0,
        **kwargs: Any,
    ) -> None:
        self.distillation = Distillation(temperature=temperature, weight=weight, hidden_weight=hidden_weight)
        super().__init__(*args, **kwargs)
        self.unlabelled = unlabelled
        self._check(teacher)
        self.teacher = teacher.to(self.args.device).eval()
        parameters = inspect.signature(teacher.forward).parameters
        self._taught = {name for name in parameters if name != "labels"}

    def _check(self, teacher: nn.Module) -> None:
        if teacher is self.model:
            raise ValueError("the teacher is the model itself: load it a second time")
        if self.compute_loss_func is not None or self.label_smoother is not None:
            raise ValueError("a loss of your own, or smoothed labels, beside a teacher: leave one of them out")
        if self.args.n_gpu > 1:
            raise ValueError(f"one process on {self.args.n_gpu} GPUs: start it with torchrun, one process for each")
        if _setting(self.model, "problem_type") == "multi_label_classification":
            raise ValueError("soft labels are for one class of many: a multi-label head cannot be taught")
        if not 0 <= self.unlabelled < 1:
            raise ValueError(f"unlabelled={self.unlabelled}: the share of the rows that have no label, in [0, 1)")
        if self.unlabelled and self.distillation.weight == 0:
            raise ValueError(f"unlabelled={self.unlabelled} and weight=0: nobody learns from these rows; raise it")
        if self.distillation.hidden_weight > 0:
            check_widths(getattr(self.model, "config", None), getattr(teacher, "config", None))

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        more = {"output_hidden_states": True} if self.distillation.hidden_weight > 0 else {}
        # The model's own loss would be NaN, or an error, for a row without a label.
        shown = {name: value for name, value in inputs.items() if name != "labels"} if self.unlabelled else inputs
        outputs = model(**shown, **more)
        with torch.no_grad(), self.accelerator.autocast():
            taught = self.teacher(**self._shown(inputs), **more)
        loss = self._joined(outputs, taught, inputs)
        if num_items_in_batch is not None:
            loss = loss * self._share(inputs, num_items_in_batch)
        return (loss, outputs) if return_outputs else loss

    def _shown(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What the teacher reads. To one that writes that is the labels, too: it makes its decoder's inputs of them."""
        shown = {name: inputs[name] for name in inputs if name in self._taught}
        writes = _setting(self.teacher, "is_encoder_decoder") and getattr(inputs.get("labels"), "ndim", 0) > 1
        return {**shown, "labels": inputs["labels"]} if writes else shown

    def _joined(self, outputs: Mapping[str, Any], taught: Mapping[str, Any], inputs: Mapping[str, Any]) -> Tensor:
        """Means over this batch, all three."""
        keep = self._keep(inputs)
        soft = [self._soft(outputs[name], taught[name], keep) for name in _LOGITS if name in outputs]
        task = self._labelled(outputs, inputs) if self.unlabelled else outputs["loss"]
        if keep is not None and keep.ndim > 1 and not bool(keep.any()):
            task = soft[0] * 0  # the mean over no token is NaN
        hidden = None
        if self.distillation.hidden_weight > 0:
            hidden = hidden_loss(hidden_states(outputs), hidden_states(taught), inputs.get("attention_mask"), keep)
        return distillation_loss(
            task,
            torch.stack(soft).mean(),
            hidden,
            weight=self.distillation.weight,
            hidden_weight=self.distillation.hidden_weight,
        )

    def _labelled(self, outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> Tensor:
        logits, labels = outputs.get("logits"), inputs.get("labels")
        if logits is None or logits.ndim != 2 or labels is None:
            raise ValueError("unlabelled is for rows with one answer each, labels of -1 or NaN among them: leave it 0")
        return labelled_loss(logits, labels, share=1 - self.unlabelled)

    def _soft(self, student: Tensor, teacher: Tensor, keep: Tensor | None) -> Tensor:
        if student.shape != teacher.shape:
            raise ValueError(
                f"the model answers with {tuple(student.shape)} numbers and its teacher with {tuple(teacher.shape)}: "
                "give a teacher with the same labels, or the same vocabulary"
            )
        if student.shape[-1] == 1 or _setting(self.model, "problem_type") == "regression":
            return mean_over(squared_error(student, teacher))
        each = soft_label_loss(student, teacher, temperature=self.distillation.temperature)
        return mean_over(each, keep if keep is not None and keep.shape == each.shape else None)

    def _keep(self, inputs: Mapping[str, Any]) -> Tensor | None:
        """Where there is a label to predict, aligned with the logits."""
        labels = inputs.get("shift_labels", inputs.get("labels"))
        if labels is None or labels.is_floating_point():
            return None
        if "shift_labels" not in inputs and labels.ndim > 1 and shifts_labels(self.model):
            labels = nn.functional.pad(labels, (0, 1), value=IGNORED)[..., 1:]
        return labels != IGNORED

    def _share(self, inputs: Mapping[str, Any], num_items_in_batch: Tensor | int) -> Tensor | float:
        """This batch's part of all that one optimizer step learns from, over accumulated batches and processes.

        The model is not asked to divide by `num_items_in_batch` itself: many, BERT's classifier among them, accept it
        and ignore it, and their gradient then grows with the number of accumulated batches.
        """
        keep = self._keep(inputs)
        items = keep.sum() if keep is not None else inputs["labels"].numel()
        processes = self.accelerator.num_processes if self.args.average_tokens_across_devices else 1
        return items * processes / num_items_in_batch


def hidden_states(outputs: Mapping[str, Any]) -> tuple[Tensor, ...]:
    for name in ("hidden_states", "decoder_hidden_states"):
        if outputs.get(name) is not None:
            return outputs[name]
    raise ValueError("the model gives no hidden states: leave hidden_weight 0")


def hidden_loss(
    student: tuple[Tensor, ...], teacher: tuple[Tensor, ...], attention_mask: Tensor | None, keep: Tensor | None
) -> Tensor:
    """Squared error over the positions that hold a token: all layers where there are as many, else the last."""
    shape = student[-1].shape[:-1]
    masks = [mask.bool() for mask in (attention_mask, keep) if mask is not None and mask.shape == shape]
    pairs = list(zip(student, teacher, strict=True)) if len(student) == len(teacher) else [(student[-1], teacher[-1])]
    return torch.stack([mean_over(squared_error(*pair), masks[0] if masks else None) for pair in pairs]).mean()


def check_widths(student: Any, teacher: Any) -> None:
    widths = [getattr(config, "hidden_size", None) for config in (student, teacher)]
    if widths[0] != widths[1]:
        raise ValueError(
            f"the model's hidden states are {widths[0]} wide and its teacher's {widths[1]}: they cannot be compared, "
            "learn from the logits alone"
        )


def shifts_labels(model: nn.Module | None) -> bool:
    """True for a causal language model, whose position i predicts label i + 1."""
    if _setting(model, "is_encoder_decoder"):
        return False
    # GPT-2's class has another name than most, and no loss_type.
    named = type(model).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
    return named or LOSS_MAPPING.get(getattr(model, "loss_type", None) or "") is ForCausalLMLoss


def _setting(model: nn.Module | None, name: str) -> Any:
    return getattr(getattr(model, "config", None), name, None)
