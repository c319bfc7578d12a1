"""How far two rows of Table 1 or 2 are apart: the mean of the differences seed by seed, ± its standard error.

python experiments/glue/apart.py MODEL NAME RIVAL        such as: mpnet-base 'MGPP recommended' PLATON
python experiments/glue/apart.py MODEL STUDY/NAME RIVAL  a row of a study: minilm 'taught/MGPP recommended' dense
python experiments/glue/apart.py MODEL table2/NAME RIVAL a row of Table 2: minilm table2/PLATON faster2/PLATON

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
    is_second = any(line["cell"]["task"] in grid.TABLES["table2"].tasks for line in lines)
    planned = grid.planned(model, "table2" if is_second else "table")
    parts = {"all tasks": list(planned.tasks)}
    parts |= {LABELS[task]: [task] for task in planned.tasks}
    parts |= {f"without {LABELS[task]}": [each for each in planned.tasks if each != task] for task in planned.tasks}
    return [
        f"{sparsity:.0%}, {part}: {apart(name, of_seeds(lines, sparsity, tasks), rival) or 'not run'}"
        for sparsity in planned.sparsities
        for part, tasks in parts.items()
    ]


def _row(model: str, told: str) -> list[Line]:
    """Its lines, named as it is told."""
    study, _, name = told.rpartition("/")
    lines = lines_of(model, study) if study else lines_in_table(model) + lines_in_table(model, "seeds")
    return [named(line, told) for line in lines if name == _name_of(line)]


def _name_of(line: Line) -> str:
    return line["cell"]["name"] + (" + unlabelled" if line["cell"].get("unlabelled") else "")


if __name__ == "__main__":
    print("\n".join(differences(*sys.argv[1:])))
