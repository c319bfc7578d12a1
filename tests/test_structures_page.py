"""The code of docs/structures.md runs, and the model is pruned in the pattern that each block of it asks for."""

import re
from pathlib import Path

import pytest

from mgpp.functional.structure import Groups, parse_structure
from mgpp.targets import find_targets
from tests.test_cards import given

PAGE = Path(__file__).parent.parent / "docs" / "structures.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_code_of_the_page_runs_and_prunes_in_its_pattern(block, tmp_path):
    structure = parse_structure(re.search(r'structure="(.*?)"', block)[1])
    names = given(tmp_path)
    exec(compile(block, str(PAGE), "exec"), names)
    weights = list(find_targets(names["model"]).values())
    zeros = sum(weight.numel() - int(weight.count_nonzero()) for weight in weights)
    shapes = [tuple(weight.shape) for weight in weights]
    sparsity = structure.sparsity if isinstance(structure, Groups) else float(re.search(r"sparsity=([\d.]+)", block)[1])
    assert structure.least(shapes, sparsity) <= zeros <= structure.most(shapes, sparsity)
