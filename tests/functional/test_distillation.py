"""The teacher's part of the loss is the textbook's, for any dtype, mask and temperature."""

import pytest
import torch
from torch.nn import functional as F

from mgpp.functional.distillation import distillation_loss, labelled_loss, mean_over, soft_label_loss, squared_error


def logits(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("shape", [(7, 3), (2, 5, 11)])
def test_soft_labels_are_torchs_divergence_times_the_square_of_the_temperature(temperature, shape):
    student, teacher = logits(*shape), logits(*shape, seed=1)
    expected = temperature**2 * F.kl_div(
        F.log_softmax(student / temperature, -1), F.softmax(teacher / temperature, -1), reduction="none"
    ).sum(-1)
    torch.testing.assert_close(soft_label_loss(student, teacher, temperature=temperature), expected)


def test_a_student_that_agrees_loses_nothing_and_is_not_moved():
    student = logits(4, 3).requires_grad_()
    loss = soft_label_loss(student, student.detach(), temperature=3.0).sum()
    loss.backward()
    torch.testing.assert_close(loss.detach(), torch.zeros((), dtype=torch.float64))
    torch.testing.assert_close(student.grad, torch.zeros_like(student))


def test_the_gradient_hardly_depends_on_the_temperature_where_logits_are_small():
    grads = []
    for temperature in (10.0, 20.0):
        student = (0.01 * logits(6, 4)).requires_grad_()
        soft_label_loss(student, 0.01 * logits(6, 4, seed=1), temperature=temperature).sum().backward()
        grads.append(student.grad)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-2, atol=0)


def test_half_precision_is_computed_in_float32():
    student, teacher = (logits(9, 5, seed=seed, dtype=torch.bfloat16) for seed in (0, 1))
    loss = soft_label_loss(student, teacher, temperature=2.0)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, soft_label_loss(student.float(), teacher.float(), temperature=2.0))
    assert squared_error(student, teacher).dtype == torch.float32


def test_extreme_logits_stay_finite():
    student, teacher = torch.tensor([[1e4, -1e4]]), torch.tensor([[-1e4, 1e4]])
    assert torch.isfinite(soft_label_loss(student, teacher, temperature=1.0)).all()


def test_the_squared_error_is_the_mean_over_the_last_dimension():
    student, teacher = logits(2, 5, 8), logits(2, 5, 8, seed=1)
    torch.testing.assert_close(squared_error(student, teacher).mean(), F.mse_loss(student, teacher))


def test_only_kept_positions_count_and_none_is_zero():
    values = torch.tensor([1.0, 5.0, float("nan")], requires_grad=True)
    torch.testing.assert_close(mean_over(values, torch.tensor([True, True, False])), torch.tensor(3.0))
    nowhere = mean_over(values, torch.zeros(3, dtype=torch.bool))
    nowhere.backward()
    assert nowhere == 0
    torch.testing.assert_close(values.grad, torch.zeros(3))


def test_the_parts_are_weighed():
    task, soft, hidden = torch.tensor(2.0), torch.tensor(10.0), torch.tensor(3.0)
    torch.testing.assert_close(distillation_loss(task, soft, weight=0.25), torch.tensor(4.0))
    torch.testing.assert_close(
        distillation_loss(task, soft, hidden, weight=0.25, hidden_weight=2.0), torch.tensor(10.0)
    )
    torch.testing.assert_close(distillation_loss(task, soft, weight=0.0), task)


@pytest.mark.parametrize("numbers", [False, True], ids=["classes", "numbers"])
@pytest.mark.parametrize("known", [[0, 1, 2, 3, 4], [1, 4], []], ids=["all", "some", "none"])
def test_rows_without_a_label_lose_nothing_and_are_not_moved(numbers, known):
    student = logits(5, 1 if numbers else 3).requires_grad_()
    labels = torch.tensor([0.5, 1.0, -2.0, 0.0, 3.0], dtype=torch.float64) if numbers else torch.tensor([0, 2, 1, 0, 2])
    shown = torch.full_like(labels, torch.nan if numbers else -1)
    shown[known] = labels[known]
    loss = labelled_loss(student, shown)
    loss.backward()
    alone = student.detach().clone().requires_grad_()
    mean = (
        F.mse_loss(alone[known].squeeze(-1), labels[known]) if numbers else F.cross_entropy(alone[known], labels[known])
    )
    expected = mean if known else alone.sum() * 0
    expected.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(student.grad, alone.grad)


@pytest.mark.parametrize("numbers", [False, True], ids=["classes", "numbers"])
def test_with_the_share_of_labelled_rows_a_batch_is_the_mean_of_its_pieces(numbers):
    student = logits(6, 1 if numbers else 3)
    labels = (
        torch.tensor([1.0, torch.nan, torch.nan, 2.0, torch.nan, 0.5])
        if numbers
        else torch.tensor([2, -1, -1, 0, -1, 1])
    )
    whole = labelled_loss(student, labels, share=0.5)
    pieces = [labelled_loss(student[rows], labels[rows], share=0.5) for rows in (slice(0, 2), slice(2, 4), slice(4, 6))]
    torch.testing.assert_close(torch.stack(pieces).mean(), whole)
    torch.testing.assert_close(whole, labelled_loss(student, labels))


@pytest.mark.parametrize("labels", [torch.tensor([[1.0], [3.0]]), torch.tensor([1, 3])], ids=["column", "ints"])
def test_one_number_is_compared_with_its_own_label(labels):
    torch.testing.assert_close(labelled_loss(torch.tensor([[2.0], [5.0]]), labels), torch.tensor(2.5))


def test_what_labelled_rows_lose_is_computed_in_float32_for_half_precision():
    student, labels = logits(9, 5, dtype=torch.bfloat16), torch.arange(9) % 5
    assert torch.equal(labelled_loss(student, labels), labelled_loss(student.float(), labels))
