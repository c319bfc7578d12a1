"""Pupils alone, with a teacher of their own size, and with a larger one; and with more time."""

from experiments.glue import grid, studies
from experiments.pages.cells import Line, lines_of, named, planned_among, told_tasks
from experiments.pages.glue import by_seed, lines_in_table
from experiments.pages.study import so_far
from experiments.pages.text import Rows, spread, table

TEACHERS = {"": "none", " + teacher": "as large"}  # what a name in Table 1 ends with


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
    usual, longer = (", ".join(str(of[task]) for task in studies.TAUGHT_ON) for of in (grid.EPOCHS, studies.PATIENT))
    rows: Rows = []
    with_it = [named(line, studies.FASTER) for line in _faster(model)]
    for name, (_, (sparsity, *_)) in studies.UNHURRIED.items():
        for ending, teacher in TEACHERS.items():
            for epochs, found in {usual: [*lines_in_table(model), *with_it], longer: lines}.items():
                of_it = _rows(found, f"{name}{ending}", sparsity, name, teacher)
                rows += [[*row[:3], epochs, *row[3:]] for row in of_it]
    return table(["", "sparsity", "teacher", "epochs", *told_tasks(lines, list(studies.TAUGHT_ON))], rows)


def _faster(model: str) -> list[Line]:
    """The recommended form of that study, on the tasks and with the seeds of these."""
    lines = planned_among(lines_of(model, "faster"), studies.faster(model))
    of_it = [line for line in lines if line["cell"]["name"] == "MGPP recommended"]
    return [line for line in of_it if line["cell"]["seed"] in grid.TABLES["table"].seeds]


def _rows(lines: list[Line], name: str, sparsity: float, told: str, teacher: str) -> Rows:
    """One, or none where nothing of it has been run."""
    of_it = [line for line in lines if line["cell"]["name"] == name]
    found = [by_seed(of_it, sparsity, [task]).get(name, []) for task in studies.TAUGHT_ON]
    seeds = len(grid.TABLES["table"].seeds)
    return [[told, f"{sparsity:.0%}", teacher, *[spread(scores, seeds) for scores in found]]] if any(found) else []
