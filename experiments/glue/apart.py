"""How far two rows of a table are apart: the mean of the differences seed by seed, ± its standard error.

python experiments/glue/apart.py MODEL NAME RIVAL        such as: mpnet-base 'MGPP recommended' PLATON
python experiments/glue/apart.py MODEL STUDY/NAME RIVAL  a row of a study: minilm 'taught/MGPP recommended' dense
python experiments/glue/apart.py MODEL table2/NAME RIVAL a row of Table 2: minilm table2/PLATON faster2/PLATON
python experiments/glue/apart.py MODEL fifth/NAME RIVAL  SST-2 of a larger model: mpnet-base fifth/GMP fifth/dense

Of a row that learnt from rows without labels, too, that is said: minilm 'unlabelled/dense + unlabelled' dense
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from experiments.glue import grid
from experiments.pages.cells import LABELS, Line, lines_of, named
from experiments.pages.glue import lines_in_table, of_seeds
from experiments.pages.seeds import apart


def differences(model: str, name: str, rival: str) -> list[str]:
    """At every sparsity over all tasks, on each alone, and without each."""
    lines = _row(model, name) + _row(model, rival)
    planned = _table_of(model, {line["cell"]["task"] for line in lines})
    parts = {LABELS[task]: [task] for task in planned.tasks}
    if len(parts) > 1:
        without = {task: [each for each in planned.tasks if each != task] for task in planned.tasks}
        parts = {"all tasks": list(planned.tasks), **parts}
        parts |= {f"without {LABELS[task]}": others for task, others in without.items()}
    return [
        f"{sparsity:.0%}, {part}: {apart(name, of_seeds(lines, sparsity, tasks), rival) or 'not run'}"
        for sparsity in planned.sparsities
        for part, tasks in parts.items()
    ]


def _table_of(model: str, tasks: set[str]) -> grid.Table:
    """The one with most of these tasks; larger models have their fifth in a table of its own."""
    names = ["table", "table2", *([] if model == grid.WITH_ALL else ["fifth"])]
    return max((grid.planned(model, which) for which in names), key=lambda planned: len(tasks & set(planned.tasks)))


def _row(model: str, told: str) -> list[Line]:
    """Its lines, named as it is told."""
    study, _, name = told.rpartition("/")
    lines = lines_of(model, study) if study else lines_in_table(model) + lines_in_table(model, "seeds")
    return [named(line, told) for line in lines if name == _name_of(line)]


def _name_of(line: Line) -> str:
    return line["cell"]["name"] + (" + unlabelled" if line["cell"].get("unlabelled") else "")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print("\n".join(differences(*sys.argv[1:])))
