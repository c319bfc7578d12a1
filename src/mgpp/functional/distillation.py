"""What a student loses against its teacher: soft labels, outputs that are numbers, and hidden states; and against
labels, where some rows have none."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def soft_label_loss(student: Tensor, teacher: Tensor, *, temperature: float) -> Tensor:
    """T² · KL(softmax(teacher/T) ‖ softmax(student/T)), one number for every position.

    T² keeps its gradient as large as the hard labels', whatever T is.
    """
    log_student, log_teacher = (
        torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature, dim=-1)
        for logits in (student, teacher)
    )
    return temperature**2 * (log_teacher.exp() * (log_teacher - log_student)).sum(-1)


def squared_error(student: Tensor, teacher: Tensor) -> Tensor:
    """The mean of (student - teacher)² over the last dimension, one number for every position."""
    wide = torch.promote_types(student.dtype, torch.float32)
    return (student.to(wide) - teacher.to(wide)).square().mean(-1)


def mean_over(values: Tensor, keep: Tensor | None = None) -> Tensor:
    """The mean of the values where `keep` is True; 0, with a gradient of 0, where that is nowhere."""
    if keep is None:
        return values.mean()
    return values.where(keep, 0).sum() / keep.sum().clamp(min=1)


def labelled_loss(logits: Tensor, labels: Tensor, *, share: float | None = None) -> Tensor:
    """The mean of what the rows that have a label lose: cross entropy, or squared error where one number is answered.

    One has none where its class is below 0, or its number NaN. Of a batch there may be more or fewer of them by chance:
    with `share`, how many of all rows have one, each counts alike in whichever batch it is.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if logits.shape[-1] == 1:
        labels = labels.to(logits.dtype)
        each, known = (logits.reshape(labels.shape) - labels.nan_to_num()).square(), ~labels.isnan()
    else:
        each, known = cross_entropy(logits, labels.clamp(min=0), reduction="none"), labels >= 0
    return mean_over(each, known) if share is None else each.where(known, 0).mean() / share


def distillation_loss(
    task: Tensor, soft: Tensor, hidden: Tensor | None = None, *, weight: float, hidden_weight: float = 0.0
) -> Tensor:
    """(1 - α)·task + α·soft + β·hidden,  α = `weight`, β = `hidden_weight`."""
    loss = (1 - weight) * task + weight * soft
    return loss if hidden is None else loss + hidden_weight * hidden
