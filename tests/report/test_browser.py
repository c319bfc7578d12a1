"""The page in a real browser: drawn without complaint, and doing what its buttons, keys and pointers say.

MGPP_SCREENSHOTS=folder keeps the pictures that the last test takes.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("websockets")

from mgpp import records, report
from tests.report.browser import Browser, Page, find_chromium
from tests.report.runs import L2, write_run

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None
    with Browser(CHROMIUM) as browser:
        yield browser


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    runs = [write_run(folder / "ours"), write_run(folder / "l2", method=L2), write_run(folder / "dense", method=None)]
    wicked = report.read_run(write_run(folder / "wicked", came_back=0.0), name="</script><script>throw 1</script>")
    return report.write_page([*report.read_runs(runs), wicked], folder / "page.html")


@pytest.fixture
def page(browser, path) -> Page:
    return browser.open(path)


def lines(page: Page, chart: str) -> int:
    return page.js(f"document.querySelectorAll('[data-chart={chart}] polyline').length")


def readout(page: Page, chart: str) -> str:
    return page.js(f"document.querySelector('[data-chart={chart}] .readout').textContent")


def ticks(page: Page, chart: str) -> list[str]:
    return page.js(f"[...document.querySelectorAll('[data-chart={chart}] svg text')].map((text) => text.textContent)")


def test_every_chart_is_drawn_and_nobody_complains(page):
    drawn = page.js(
        """[...document.querySelectorAll('[data-chart]')].map((box) =>
        [box.dataset.chart, box.querySelectorAll('polyline, rect.after, canvas').length])"""
    )
    charts = dict(drawn)
    assert charts.keys() == {"sparsity", "cut", "loss", "metric0", "came_back", "in_spike", "layers", "sizes", "heat"}
    assert all(charts.values()), charts
    assert page.complaints == []
    assert page.js("document.querySelector('h1').textContent").startswith("4 runs: ours, l2, dense, </script>")


def test_lines_go_where_the_numbers_are(page):
    points = page.js("document.querySelector('[data-chart=sparsity] polyline').getAttribute('points')").split()
    heights = [float(point.split(",")[1]) for point in points]
    assert heights == sorted(heights, reverse=True)  # sparsity only rises, and pixels count from the top
    assert all("NaN" not in point for point in points)


@pytest.mark.parametrize("evaluations", [1, 2])
def test_what_has_only_one_point_is_a_dot(evaluations, browser, tmp_path):
    folder = write_run(tmp_path / "early", until=20, finished=False)
    for _ in range(evaluations - 1):  # at the same step, with the same loss
        records.append(folder / "records.jsonl", {"event": "log", "step": 20, "eval_loss": 0.5})
    page = browser.open(report.write_page([report.read_run(folder)], tmp_path / "page.html"))
    seen = page.js(
        """[...document.querySelectorAll('.plot [data-name]')].map((it) => {
        const { width, height } = it.getBoundingClientRect();
        return [it.dataset.name, Math.max(width, height) > 4]; })"""
    )
    assert {"early", "early, asked", "early, evaluation", "0 attention.self.query"} <= dict(seen).keys()
    assert all(is_seen for _, is_seen in seen), seen
    page.drag("[data-chart=loss] .plot", 0.5, 0.9)  # zoomed to later steps, it has left
    assert page.js("document.querySelectorAll('.plot .dot').length") == 0
    assert page.complaints == []


@pytest.mark.parametrize(("chart", "name"), [("sparsity", "ours, asked"), ("in_spike", "ours, pruned before")])
def test_what_lies_on_another_line_is_seen_beside_it(chart, name, page):
    drawn = page.js(
        f"""[...document.querySelectorAll('[data-chart={chart}] polyline')].map((it) =>
        [it.dataset.name, parseFloat(getComputedStyle(it).strokeWidth)])"""
    )
    widths, order = dict(drawn), [one for one, _ in drawn]
    assert widths[name] >= widths["ours"] + 4
    assert order.index(name) < order.index("ours")


def test_a_key_hides_its_line_and_shows_it_again(page):
    before = lines(page, "cut")
    key = "[data-chart=cut] button.key"
    page.click(key)
    assert lines(page, "cut") == before - 1
    assert page.js(f"document.querySelector('{key}').getAttribute('aria-pressed')") == "false"
    page.js(f"document.querySelector('{key}').focus()")
    page.press(" ")
    assert lines(page, "cut") == before
    assert page.js(f"document.querySelector('{key}').getAttribute('aria-pressed')") == "true"


def test_pointing_reads_the_values_of_every_line(page):
    page.hover("[data-chart=sparsity] .plot", 0.98)
    told = readout(page, "sparsity")
    assert told.startswith("step 100: ")
    assert "ours 8" in told
    assert "l2 8" in told


def test_of_many_matrices_the_nearest_is_read(page):
    page.hover("[data-chart=layers] .plot", 0.9, 0.2)
    told = readout(page, "layers")
    assert told.count("%") == 1
    assert "output.dense" in told or "attention" in told


def test_dragging_zooms_all_charts_and_a_button_shows_all_again(page):
    assert "100" in ticks(page, "loss")
    page.drag("[data-chart=sparsity] .plot", 0.3, 0.5)
    assert "100" not in ticks(page, "loss")
    assert ticks(page, "loss")[-2:] != []
    page.click("[data-chart=loss] button[aria-label='Show all steps']")
    assert "100" in ticks(page, "sparsity")


def test_the_keyboard_reads_zooms_and_resets(page):
    page.js("document.querySelector('[data-chart=loss] .plot').focus()")
    page.press("ArrowRight")
    first = readout(page, "loss")
    page.press("ArrowRight")
    assert first.startswith("step ")
    assert readout(page, "loss") != first
    page.press("+")
    assert "100" not in ticks(page, "loss")
    page.press("0")
    assert "100" in ticks(page, "loss")


def test_everything_that_reacts_can_be_reached_by_tab_and_has_a_name(page):
    nameless = page.js(
        """[...document.querySelectorAll('button, select, input, [tabindex="0"], a')].filter((it) =>
        !(it.textContent.trim() || it.getAttribute('aria-label') || it.labels?.length)).length"""
    )
    assert nameless == 0
    reached = set()
    for _ in range(160):
        page.press("Tab")
        reached.add(page.js("document.activeElement.closest('[data-chart]')?.dataset.chart ?? ''"))
    assert {"sparsity", "cut", "loss", "came_back", "layers", "heat", "sizes"} <= reached


def test_the_heat_map_is_read_by_pointer_and_by_keys_and_is_coloured(page):
    page.hover("[data-chart=heat] .plot", 0.99, 0.05)
    assert readout(page, "heat").startswith("0 attention.self.query, step 100: 8")
    page.js("document.querySelector('[data-chart=heat] .plot').focus()")
    page.press("ArrowDown")
    assert readout(page, "heat").startswith("0 attention.output.dense, step 100")
    colors = page.js(
        """(() => { const it = document.querySelector('[data-chart=heat] canvas'); const pen = it.getContext('2d');
        return [0.55, 0.97].map((x) => [...pen.getImageData(it.width * x, 5, 1, 1).data].join(' ')); })()"""
    )
    assert colors[0] != colors[1]


def test_the_slider_moves_through_the_looks(page):
    last = readout(page, "sizes")
    page.js("document.querySelector('[data-chart=sizes] input').focus()")
    for _ in range(30):
        page.press("ArrowLeft")
    assert readout(page, "sizes") != last
    assert "step" in page.js("document.querySelector('[data-chart=sizes] input').getAttribute('aria-valuetext')")
    assert page.js("document.querySelectorAll('[data-chart=sizes] rect.after').length") == 6  # nothing pruned yet


def test_another_run_and_another_grouping_can_be_chosen(page):
    def choose(name: str, value: str) -> None:
        page.js(f"document.getElementById('{name}').value = '{value}'")
        page.js(f"document.getElementById('{name}').dispatchEvent(new Event('change'))")

    assert page.js("document.querySelectorAll('[data-chart=layers] .key').length") == 3
    choose("by", "block")
    assert page.js("document.querySelectorAll('[data-chart=layers] .key').length") == 2
    choose("which", "1")
    assert page.complaints == []


def test_the_numbers_behind_a_chart_are_a_table(page):
    page.click("[data-chart=cut] summary")
    page.wait_for("document.querySelectorAll('[data-chart=cut] details tr').length > 10")


def test_colours_follow_the_system_and_the_button(browser, path):
    def background(page: Page) -> str:
        return page.js("getComputedStyle(document.body).backgroundColor")

    light, dark = browser.open(path), browser.open(path, dark=True)
    assert background(light) != background(dark)
    light.click("#theme")
    light.click("#theme")
    assert background(light) == background(dark)
    assert light.js("document.getElementById('theme').textContent") == "Colours: dark"


@pytest.mark.parametrize(("width", "side_by_side"), [(1200, 3), (800, 2)])
def test_the_tables_of_a_base_models_layers_are_not_cut(width, side_by_side, browser, tmp_path):
    kinds = [f"attention.{part}" for part in ("self.query", "self.key", "self.value", "output.dense")]
    sizes = dict.fromkeys(kinds, 768 * 768) | dict.fromkeys(("intermediate.dense", "output.dense"), 4 * 768 * 768)
    names = {f"bert.encoder.layer.{block}.{kind}.weight": size for block in range(12) for kind, size in sizes.items()}
    run = report.read_run(write_run(tmp_path / "base", weights=names))
    page = browser.open(report.write_page([run], tmp_path / "page.html"), width=width)
    tables = page.js(
        """[...document.querySelectorAll('#where [role=region]')].slice(0, 3).map((it) =>
        [it.getAttribute('aria-label'), it.scrollWidth - it.clientWidth, it.getBoundingClientRect().top])"""
    )
    assert [label.split()[0].strip(":") for label, _, _ in tables] == ["Kinds", "Blocks", "Matrices"]
    assert [cut for _, cut, _ in tables] == [0, 0, 0]
    assert sum(top == tables[0][2] for *_, top in tables) == side_by_side


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 390])
def test_it_fits_desktop_and_phone_by_day_and_by_night(width, dark, browser, path, tmp_path):
    page = browser.open(path, width=width, height=844, dark=dark)
    assert page.js("document.documentElement.scrollWidth") <= width
    overlapping = page.js(
        """[...document.querySelectorAll('figure svg[role=img]')].flatMap((picture) => {
        const boxes = [...picture.querySelectorAll('text')].map((it) => it.getBoundingClientRect());
        return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) =>
            a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)); }).length"""
    )
    assert overlapping == 0
    folder = Path(os.environ.get("MGPP_SCREENSHOTS", tmp_path))
    picture = page.screenshot(folder / f"page-{width}-{'dark' if dark else 'light'}.png")
    assert len(picture) > 50_000
    assert page.complaints == []
