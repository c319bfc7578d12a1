"""The tables of the documentation are the newest of the committed results."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


def _loaded(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("script", "page", "tables"),
    [("benchmarks/table.py", "docs/performance.md", 10), ("experiments/tables.py", "docs/results.md", 4)],
)
def test_the_tables_of_a_page_are_the_newest_results(script, page, tables):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text.count("<!-- end -->") >= tables
    assert text == _loaded(script).fill(text), f"run: python {script} {page}"
