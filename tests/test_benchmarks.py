"""The tables of the documentation are the newest of the committed results."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_tables_of_performance_are_the_newest_results():
    spec = importlib.util.spec_from_file_location("table", ROOT / "benchmarks" / "table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert page.count("<!-- results: ") >= 8
    assert page == module.fill(page), "run: python benchmarks/table.py docs/performance.md"
