"""The committed results of the experiments as Markdown tables, filled into the pages that name them.

python experiments/tables.py            # all pages
python experiments/tables.py README.md  # or some
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.pages.annealing import annealing, clipping, gradients
from experiments.pages.beyond import beyond
from experiments.pages.choosing import candidates, chosen, protocol
from experiments.pages.faster import faster, following, gained
from experiments.pages.figure2 import figure2
from experiments.pages.glue import fifth, table1, table2
from experiments.pages.higher import higher
from experiments.pages.longer import longer
from experiments.pages.movement import cut, movement
from experiments.pages.paper import paper
from experiments.pages.seeds import seeds, standing
from experiments.pages.single import decoder, levels, squad, summaries, upstream
from experiments.pages.summary import summary
from experiments.pages.taught import patient, taught, unlabelled
from experiments.pages.tried import ablations, sweep
from experiments.pages.varied import varied

ROOT = Path(__file__).resolve().parent.parent
# Of the laboratory's cells, for tables and for studies of one method; and of runs of their own.
OF_CELLS = (protocol, summary, standing, table1, table2, fifth, seeds, paper)
OF_CELLS += (chosen, candidates, ablations, varied, sweep, figure2)
OF_STUDIES = (movement, cut, annealing, gradients, clipping, higher, following, faster, gained, longer)
OF_STUDIES += (taught, patient, unlabelled)
OF_RUNS = (levels, squad, summaries, decoder, upstream, beyond)
MAKERS: dict[str, Callable[..., str]] = {make.__name__: make for make in (*OF_CELLS, *OF_STUDIES, *OF_RUNS)}


def fill(page: str) -> str:
    """Between `<!-- experiment: NAME WORDS -->` and `<!-- end -->` stands what the committed results say."""

    def newest(block: re.Match[str]) -> str:
        name, *words = block[2].split()
        return f"{block[1]}\n{MAKERS[name](*words)}\n\n{block[3]}"

    return re.sub(r"(<!-- experiment: (.+?) -->\n).*?(<!-- end -->)", newest, page, flags=re.DOTALL)


if __name__ == "__main__":
    for page in [*map(Path, sys.argv[1:])] or [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")
