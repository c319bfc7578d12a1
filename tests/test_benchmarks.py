"""The tables of the documentation are the newest of the committed results."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


def loaded(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPTS = {"results": "benchmarks/table.py", "experiment": "experiments/tables.py"}
MARKED = {
    (script, page.relative_to(ROOT).as_posix()): page.read_text(encoding="utf-8").count(f"<!-- {mark}: ")
    for mark, script in SCRIPTS.items()
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if f"<!-- {mark}: " in page.read_text(encoding="utf-8")
}


@pytest.mark.parametrize(("script", "page"), MARKED)
def test_the_tables_of_a_page_are_the_newest_results(script, page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text.count("<!-- end -->") == sum(count for (_, marked), count in MARKED.items() if marked == page)
    assert text == loaded(script).fill(text), f"run: python {script} {page}"


def test_no_page_has_lost_its_tables():
    numbers = {script: sum(n for (by, _), n in MARKED.items() if by == script) for script in SCRIPTS.values()}
    assert numbers["benchmarks/table.py"] >= 32
    assert numbers["experiments/tables.py"] >= 55


def test_a_soak_tells_a_leak_from_noise():
    growth = loaded("benchmarks/soak.py").growth
    flat = [{"rss": 500 + number % 3} for number in range(100)]
    leaking = [{"rss": 500 + number} for number in range(100)]
    warming = [{"rss": 500 - max(0, 10 - number)} for number in range(100)]
    assert (growth(flat, "rss"), growth(leaking, "rss"), growth(warming, "rss")) == (2, 90, 1)


def test_a_short_soak_reads_the_memory_on_the_way():
    pytest.importorskip("datasets")
    readings = loaded("benchmarks/soak.py").soak("mgpp", 20)
    assert [reading["step"] for reading in readings] == list(range(1, 21))
    assert all(reading["rss"] > 2**20 for reading in readings)
