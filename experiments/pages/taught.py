"""Pupils alone, with a teacher of their own size, and with a larger one; with more time, and with more rows."""

from experiments.glue import grid, studies
from experiments.pages.cells import Line, lines_of, planned_among, told_tasks
from experiments.pages.glue import by_seed, lines_in_table, lines_of_faster
from experiments.pages.study import so_far
from experiments.pages.text import Rows, spread, table

TEACHERS = {"": "none", " + teacher": "as large"}  # what a name in Table 1 ends with
LABELLED, UNLABELLED = "labelled", "with unlabelled"
USUAL_EPOCHS, LONGER_EPOCHS, ANSWERED_EPOCHS = (
    ", ".join(str(epochs_of[task]) for task in studies.TAUGHT_ON)
    for epochs_of in (grid.EPOCHS, studies.PATIENT, studies.ANSWERED)
)


def taught(model: str) -> str:
    return so_far(model, "taught", studies.taught(model), lambda lines: [_by_teacher(model, lines)])


def _by_teacher(model: str, lines: list[Line]) -> str:
    rows = _rows(lines, "teacher", 0.0, studies.LARGER_TEACHER, "none")
    for name, (_, sparsities) in studies.PUPILS.items():
        for sparsity in sparsities:
            for ending, teacher in TEACHERS.items():
                rows += _rows(lines_in_table(model), f"{name}{ending}", sparsity, name, teacher)
            rows += _rows(lines, name, sparsity, name, studies.LARGER_TEACHER)
    return table(["", "sparsity", "teacher", *told_tasks(lines, list(studies.TAUGHT_ON))], rows)


def patient(model: str) -> str:
    return so_far(model, "patient", studies.patient(model), lambda lines: [_by_epochs(model, lines)])


def _by_epochs(model: str, lines: list[Line]) -> str:
    rows: Rows = []
    by_epochs = {USUAL_EPOCHS: _of_usual_length(model), LONGER_EPOCHS: lines}
    for name, (_, (sparsity, *_)) in studies.UNHURRIED.items():
        for ending, teacher in TEACHERS.items():
            for epochs, found in by_epochs.items():
                rows += _rows(found, f"{name}{ending}", sparsity, name, teacher, epochs)
    return table(["", "sparsity", "teacher", "epochs", *told_tasks(lines, list(studies.TAUGHT_ON))], rows)


def unlabelled(model: str) -> str:
    return so_far(model, "unlabelled", studies.unlabelled(model), lambda lines: [_by_rows(model, lines)])


def _by_rows(model: str, lines: list[Line]) -> str:
    usual, longer = _of_usual_length(model), planned_among(lines_of(model, "patient"), studies.patient(model))
    answered = [line for line in lines if line["cell"].get("unlabelled")]
    control = [line for line in lines if not line["cell"].get("unlabelled")]
    by = studies.ANSWERED_BY
    # Told to answer such rows, a teacher still learns from the others alone.
    rows = _rows(answered, "teacher", 0.0, by, "none", LABELLED, USUAL_EPOCHS)
    for name, (_, (sparsity, *_)) in studies.ANSWERS.items():
        rows += _rows(usual, name, sparsity, name, "none", LABELLED, USUAL_EPOCHS)
        rows += _rows(longer, name, sparsity, name, "none", LABELLED, LONGER_EPOCHS)
        rows += _rows(control, name, sparsity, name, by, LABELLED, LONGER_EPOCHS)
        rows += _rows(answered, name, sparsity, name, by, UNLABELLED, ANSWERED_EPOCHS)
    return table(["", "sparsity", "teacher", "rows", "epochs", *told_tasks(lines, list(studies.TAUGHT_ON))], rows)


def _of_usual_length(model: str) -> list[Line]:
    return [*lines_in_table(model), *lines_of_faster(model)]


def _rows(lines: list[Line], name: str, sparsity: float, told: str, *more: str) -> Rows:
    """One, or none where nothing of it has been run; `more` stands between its sparsity and its scores."""
    of_it = [line for line in lines if line["cell"]["name"] == name]
    found = [by_seed(of_it, sparsity, [task]).get(name, []) for task in studies.TAUGHT_ON]
    seeds = len(grid.TABLES["table"].seeds)
    return [[told, f"{sparsity:.0%}", *more, *[spread(scores, seeds) for scores in found]]] if any(found) else []
