"""The eight GLUE tasks: columns, splits and official metrics as the benchmark has them."""

from functools import partial

from mgpp.tasks.task import TaskKind
from mgpp.tasks.text import Form, evaluation_task, training_task

_SENTENCE = (("sentence", None),)
_SENTENCES = (("sentence1", "sentence2"),)
_QUESTIONS = (("question1", "question2"),)
_BOTH = {"validation_matched": "matched", "validation_mismatched": "mismatched"}


def _kind(about: str, form: Form) -> TaskKind:
    return TaskKind(
        about=f"GLUE: {about}",
        training=partial(training_task, form=form),
        evaluation=partial(evaluation_task, form=form),
        takes_unlabelled=True,
    )


COLA = _kind("is this a sentence?", Form(columns=_SENTENCE, classes=2, metrics=("matthews",)))
SST2 = _kind("is this review good?", Form(columns=_SENTENCE, classes=2, metrics=("accuracy",)))
MRPC = _kind("do two sentences say the same?", Form(columns=_SENTENCES, classes=2, metrics=("accuracy", "f1")))
STSB = _kind(
    "how alike are two sentences, 0 to 5?", Form(columns=_SENTENCES, classes=0, metrics=("pearson", "spearman"))
)
QQP = _kind("do two questions ask the same?", Form(columns=_QUESTIONS, classes=2, metrics=("accuracy", "f1")))
MNLI = _kind(
    "does a premise entail a hypothesis, contradict it, or neither?",
    Form(columns=(("premise", "hypothesis"),), classes=3, metrics=("accuracy",), evaluation=_BOTH),
)
QNLI = _kind(
    "does a sentence answer a question?", Form(columns=(("question", "sentence"),), classes=2, metrics=("accuracy",))
)
RTE = _kind("does one sentence entail another?", Form(columns=_SENTENCES, classes=2, metrics=("accuracy",)))
