"""The tables of the documentation are the newest of the committed results."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "tables"), [("performance", 8), ("reliability", 4)])
def test_the_tables_of_a_page_are_the_newest_results(name, tables):
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert page.count("<!-- results: ") >= tables
    assert page == script("table").fill(page), f"run: python benchmarks/table.py docs/{name}.md"


def test_a_soak_tells_a_leak_from_noise():
    growth = script("soak").growth
    flat = [{"rss": 500 + number % 3} for number in range(100)]
    leaking = [{"rss": 500 + number} for number in range(100)]
    warming = [{"rss": 500 - max(0, 10 - number)} for number in range(100)]
    assert (growth(flat, "rss"), growth(leaking, "rss"), growth(warming, "rss")) == (2, 90, 1)


def test_a_short_soak_reads_the_memory_on_the_way():
    pytest.importorskip("datasets")
    readings = script("soak").soak("mgpp", 20)
    assert [reading["step"] for reading in readings] == list(range(1, 21))
    assert all(reading["rss"] > 2**20 for reading in readings)
