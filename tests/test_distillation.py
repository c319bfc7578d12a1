"""A teacher in the Trainer: one gradient however the batch is cut, labels masked, the teacher itself unchanged."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import mgpp
from tests.toy import assert_identical, weights_of

SMALL = {"vocab_size": 30, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def bert(kind: type = BertForSequenceClassification, *, seed: int = 0, dropout: bool = False, **more: Any) -> Any:
    torch.manual_seed(seed)
    settings = {**SMALL, **({} if dropout else NO_DROPOUT), "num_hidden_layers": 2, "num_labels": 3, **more}
    return kind(BertConfig(**settings))


def gpt2(seed: int = 0) -> GPT2LMHeadModel:
    torch.manual_seed(seed)
    dropouts = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(GPT2Config(vocab_size=30, n_embd=16, n_layer=2, n_head=2, n_positions=16, **dropouts))


def tokens(count: int = 8, length: int = 6) -> torch.Tensor:
    return torch.randint(5, 30, (count, length), generator=torch.Generator().manual_seed(1))


def classes(count: int = 8) -> list[dict[str, Any]]:
    return [{"input_ids": row.tolist(), "labels": i % 3} for i, row in enumerate(tokens(count))]


def tagged(count: int = 8) -> list[dict[str, Any]]:
    """Rows with different numbers of labels, the last without any."""
    rows = []
    for i, row in enumerate(tokens(count)):
        labels = [int(token) % 3 if place < count - 1 - i else -100 for place, token in enumerate(row)]
        rows.append({"input_ids": row.tolist(), "labels": labels})
    return rows


class Gradients(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self.seen = {
            name: param.grad.clone() for name, param in kwargs["model"].named_parameters() if param.grad is not None
        }


def arguments(folder: Path, **more: Any) -> TrainingArguments:
    settings = {
        "max_steps": 1,
        "per_device_train_batch_size": 8,
        "max_grad_norm": 0.0,
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "seed": 3,
    }
    return TrainingArguments(output_dir=str(folder), **{**settings, **more})


def gradients(
    folder: Path, model: Any, rows: list[dict[str, Any]], *, teacher: Any = None, distil: Any = None, **more: Any
):
    seen = Gradients()
    kind, extra = (
        (Trainer, {}) if teacher is None else (mgpp.DistillationTrainer, {"teacher": teacher, **(distil or {})})
    )
    kind(model=model, args=arguments(folder, **more), train_dataset=rows, callbacks=[seen], **extra).train()
    return seen.seen


def batch_of(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    return {key: torch.tensor([row[key] for row in rows]) for key in rows[0]}


def autograd(model: Any, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: param.grad for name, param in model.named_parameters() if param.grad is not None}


def assert_close(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            actual[name], value, rtol=1e-4, atol=1e-7, msg=lambda told, name=name: f"{name}: {told}"
        )


CUTS = [{}, {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}]
CUTS += [{"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}]
cut_in = pytest.mark.parametrize("cut", CUTS, ids=("whole", "halves", "quarters"))


@cut_in
def test_the_gradient_is_that_of_the_written_loss_however_the_batch_is_cut(cut, tmp_path):
    model, teacher = bert(), bert(seed=1)
    batch = batch_of(classes())
    with torch.no_grad():
        soft = (teacher.eval()(input_ids=batch["input_ids"]).logits / 3).softmax(-1)
    outputs = deepcopy(model).train()
    out = outputs(**batch)
    loss = 0.3 * out.loss + 0.7 * 9 * F.kl_div((out.logits / 3).log_softmax(-1), soft, reduction="batchmean")
    expected = autograd(outputs, loss)
    distil = {"temperature": 3.0, "weight": 0.7}
    assert_close(gradients(tmp_path, model, classes(), teacher=teacher, distil=distil, **cut), expected)


@cut_in
def test_every_labelled_token_weighs_the_same_and_others_nothing(cut, tmp_path):
    model, teacher = bert(BertForTokenClassification), bert(BertForTokenClassification, seed=1)
    batch = batch_of(tagged())
    kept = batch["labels"] != -100
    copy = deepcopy(model).train()
    out = copy(**batch)
    soft = (teacher.eval()(input_ids=batch["input_ids"]).logits[kept] / 2).softmax(-1).detach()
    told = F.kl_div((out.logits[kept] / 2).log_softmax(-1), soft, reduction="batchmean")
    expected = autograd(copy, 0.5 * out.loss + 0.5 * 4 * told)
    assert_close(gradients(tmp_path, model, tagged(), teacher=teacher, **cut), expected)


@cut_in
def test_a_causal_model_is_taught_where_it_predicts_a_label(cut, tmp_path):
    rows = [
        {**row, "labels": [-100, -100, *row["input_ids"][2 : 6 - i % 3], *[-100] * (i % 3)]}
        for i, row in enumerate(classes())
    ]
    model, teacher = gpt2(), gpt2(seed=1)
    batch = batch_of(rows)
    kept = batch["labels"][:, 1:] != -100
    copy = deepcopy(model).train()
    out = copy(**batch)
    soft = (teacher.eval()(input_ids=batch["input_ids"]).logits[:, :-1][kept] / 2).softmax(-1).detach()
    told = F.kl_div((out.logits[:, :-1][kept] / 2).log_softmax(-1), soft, reduction="batchmean")
    expected = autograd(copy, 0.5 * out.loss + 0.5 * 4 * told)
    assert_close(gradients(tmp_path, model, rows, teacher=teacher, **cut), expected)


def test_regression_is_taught_by_squared_error(tmp_path):
    rows = [{**row, "labels": float(row["labels"])} for row in classes()]
    model, teacher = bert(num_labels=1), bert(num_labels=1, seed=1)
    batch = batch_of(rows)
    copy = deepcopy(model).train()
    out = copy(**batch)
    taught = teacher.eval()(input_ids=batch["input_ids"]).logits.detach()
    expected = autograd(copy, 0.5 * out.loss + 0.5 * F.mse_loss(out.logits, taught))
    for cut in CUTS:
        assert_close(gradients(tmp_path, deepcopy(model), rows, teacher=teacher, **cut), expected)


@pytest.mark.parametrize(("layers", "compared"), [(2, slice(None)), (3, slice(-1, None))])
def test_hidden_states_are_compared_without_padding(layers, compared, tmp_path):
    rows = [{**row, "attention_mask": [1] * (6 - i % 3) + [0] * (i % 3)} for i, row in enumerate(classes())]
    model, teacher = bert(), bert(seed=1, num_hidden_layers=layers)
    batch = batch_of(rows)
    kept = batch["attention_mask"].bool()
    copy = deepcopy(model).train()
    out = copy(**batch, output_hidden_states=True)
    with torch.no_grad():
        taught = teacher.eval()(**batch, output_hidden_states=True)
    pairs = zip(out.hidden_states[compared], taught.hidden_states[compared], strict=True)
    hidden = torch.stack([F.mse_loss(mine[kept], theirs[kept]) for mine, theirs in pairs]).mean()
    expected = autograd(copy, out.loss + 5 * hidden)
    distil = {"weight": 0.0, "hidden_weight": 5.0}
    assert_close(gradients(tmp_path, model, rows, teacher=teacher, distil=distil), expected)


def test_answers_of_two_kinds_are_both_taught(tmp_path):
    rows = [{"input_ids": row["input_ids"], "start_positions": 1, "end_positions": 3} for row in classes()]
    model, teacher = bert(BertForQuestionAnswering, num_labels=2), bert(BertForQuestionAnswering, num_labels=2, seed=1)
    taught = gradients(tmp_path, deepcopy(model), rows, teacher=teacher, distil={"weight": 1.0})
    batch = batch_of(rows)
    copy = deepcopy(model).train()
    out = copy(**batch)
    answers = teacher.eval()(input_ids=batch["input_ids"])
    told = [
        4 * F.kl_div((mine / 2).log_softmax(-1), (theirs / 2).softmax(-1).detach(), reduction="batchmean")
        for mine, theirs in ((out.start_logits, answers.start_logits), (out.end_logits, answers.end_logits))
    ]
    assert_close(taught, autograd(copy, torch.stack(told).mean()))


def test_weight_zero_is_the_plain_trainer(tmp_path):
    model, teacher = bert(dropout=True), bert(seed=1, dropout=True)
    plain = gradients(tmp_path, deepcopy(model), classes())
    assert_identical(gradients(tmp_path, model, classes(), teacher=teacher, distil={"weight": 0.0}), plain)


def test_the_teacher_is_only_read_and_in_no_checkpoint(tmp_path):
    teacher = bert(seed=1, dropout=True).train()
    before = weights_of(teacher)
    model = bert(dropout=True)
    trainer = mgpp.DistillationTrainer(
        model=model, args=arguments(tmp_path, max_steps=3), train_dataset=classes(), teacher=teacher
    )
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    assert not teacher.training
    assert_identical(weights_of(teacher), before)
    assert all(param.grad is None and param.requires_grad for param in teacher.parameters())
    loaded = BertForSequenceClassification.from_pretrained(tmp_path / "saved")
    assert_identical(weights_of(loaded), weights_of(model))


def test_evaluation_tells_the_tasks_loss_alone(tmp_path):
    model, rows = bert(), classes()
    taught = mgpp.DistillationTrainer(model=model, args=arguments(tmp_path), eval_dataset=rows, teacher=bert(seed=1))
    plain = Trainer(model=model, args=arguments(tmp_path), eval_dataset=rows)
    assert taught.evaluate()["eval_loss"] == plain.evaluate()["eval_loss"]


def test_a_pupil_under_autocast_prunes_and_learns(tmp_path):
    model = bert()
    pruning = mgpp.PruningCallback(mgpp.MGPP(sparsity=0.5, start=1, end=4, every=1))
    trainer = mgpp.DistillationTrainer(
        model=model,
        args=arguments(tmp_path, max_steps=6, bf16=True),
        train_dataset=classes(),
        teacher=bert(seed=1),
        hidden_weight=1.0,
        callbacks=[pruning],
    )
    trainer.train()
    assert pruning.pruner.sparsity == 0.5


def test_a_teacher_of_another_kind_gets_only_what_it_reads(tmp_path):
    class Blind(torch.nn.Module):
        def forward(self, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": torch.zeros(len(input_ids), 3)}

    rows = [{**row, "token_type_ids": [0] * 6} for row in classes()]
    assert gradients(tmp_path, bert(), rows, teacher=Blind())


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda model: {"teacher": model}, "the teacher is the model itself"),
        (lambda model: {"teacher": bert(), "temperature": 0.0}, r"temperature=0.0: it must be a number greater than 0"),
        (lambda model: {"teacher": bert(), "weight": 1.5}, r"weight=1.5: the teacher's share of the loss"),
        (lambda model: {"teacher": bert(), "weight": float("nan")}, "weight=nan"),
        (lambda model: {"teacher": bert(), "hidden_weight": -1.0}, r"hidden_weight=-1.0"),
        (
            lambda model: {"teacher": bert(hidden_size=8), "hidden_weight": 1.0},
            "hidden states are 16 wide and its teacher's 8",
        ),
        (lambda model: {"teacher": bert(), "compute_loss_func": F.cross_entropy}, "a loss of your own"),
    ],
)
def test_what_cannot_work_is_refused_at_once(make, told, tmp_path):
    model = bert()
    with pytest.raises(ValueError, match=told):
        mgpp.DistillationTrainer(model=model, args=arguments(tmp_path), train_dataset=classes(), **make(model))


def test_a_teacher_with_other_labels_is_refused_with_both_shapes(tmp_path):
    with pytest.raises(ValueError, match=r"answers with \(8, 3\) numbers and its teacher with \(8, 5\)"):
        gradients(tmp_path, bert(), classes(), teacher=bert(num_labels=5))


@pytest.mark.parametrize("regression", [False, True], ids=["classes", "numbers"])
@cut_in
def test_of_rows_without_a_label_only_the_teacher_speaks(regression, cut, tmp_path):
    outputs = {"num_labels": 1, "problem_type": "regression"} if regression else {}
    student, teacher = bert(**outputs), bert(seed=1, **outputs)
    rows = [{**row, "labels": float(row["labels"]) if regression else row["labels"]} for row in classes()]
    for row in rows[3:]:
        row["labels"] = float("nan") if regression else -1
    distil = {"weight": 0.75, "unlabelled": 5 / 8}
    actual = gradients(tmp_path, deepcopy(student), rows, teacher=teacher, distil=distil, **cut)
    batch = batch_of(rows)
    answers, taught = student(batch["input_ids"]).logits, teacher.eval()(batch["input_ids"]).logits.detach()
    if regression:
        task, soft = F.mse_loss(answers[:3].squeeze(-1), batch["labels"][:3]), F.mse_loss(answers, taught)
    else:
        task = F.cross_entropy(answers[:3], batch["labels"][:3])
        soft = 4 * F.kl_div(F.log_softmax(answers / 2, -1), F.softmax(taught / 2, -1), reduction="batchmean")
    assert_close(actual, autograd(student, 0.25 * task + 0.75 * soft))


@pytest.mark.parametrize(
    ("distil", "told"),
    [
        ({"unlabelled": 1.0}, r"unlabelled=1.0: the share of the rows that have no label, in \[0, 1\)"),
        ({"unlabelled": 0.5, "weight": 0.0}, "unlabelled=0.5 and weight=0: nobody learns from these rows"),
    ],
)
def test_rows_without_labels_that_teach_nothing_are_refused(distil, told, tmp_path):
    with pytest.raises(ValueError, match=told):
        gradients(tmp_path, bert(), classes(), teacher=bert(seed=1), distil=distil)


def test_rows_with_many_answers_cannot_be_without_labels(tmp_path):
    tagger, teacher = bert(BertForTokenClassification), bert(BertForTokenClassification, seed=1)
    with pytest.raises(ValueError, match="unlabelled is for rows with one answer each"):
        gradients(tmp_path, tagger, tagged(), teacher=teacher, distil={"unlabelled": 0.5})
