"""The page is one file: everything in it, nothing from elsewhere, and every name in it only a name."""

import json
import re
from html.parser import HTMLParser

import pytest

from mgpp import report
from mgpp.markup import Html, table, tag
from mgpp.methods.recommended import RECOMMENDED
from mgpp.report.page import SCRIPTS, asset
from mgpp.report.payload import payload_of
from tests.report.runs import L2, MGPP, write_run

WICKED = '</script><script>alert("x")</script><img src=x onerror=alert(1)>&amp;'


class Reader(HTMLParser):
    """Elements, their attributes, and the text of the page outside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.data = ""
        self.feed(page)
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, name, attributes):
        self.found.append((name, dict(attributes)))
        if name not in ("meta", "br", "input", "img", "link"):
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, text):
        if self.open and self.open[-1] in ("script", "style"):
            self.data = text if self.found[-1][1].get("id") == "data" else self.data
        else:
            self.text += text


@pytest.fixture
def runs(tmp_path):
    folders = [write_run(tmp_path / "ours"), write_run(tmp_path / "theirs", method=L2)]
    return report.read_runs([*folders, write_run(tmp_path / "dense", method=None)])


def test_the_page_answers_what_is_asked(runs):
    text = Reader(report.make_page(runs[:1])).text
    for question in ("What was pruned?", "How much?", "Which layers lost most?", "What did it cost in accuracy?"):
        assert question in text
    assert "Had training settled?" in text
    assert "What to change next" in text
    assert "output.dense of block 1" in text
    assert 'BertForSequenceClassification.from_pretrained("' in text
    assert "learning_rate" in text
    assert "abacus" in text


def test_nothing_is_loaded_from_anywhere(runs):
    page = report.make_page(runs)
    reader = Reader(page)
    assert not [a for _, a in reader.found if "src" in a or (a.get("href") or "#")[0] != "#"]
    assert not {name for name, _ in reader.found} & {"link", "img", "iframe", "object", "base"}
    assert "url(" not in page
    assert "@import" not in page
    policy = next(a["content"] for _, a in reader.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "script-src 'sha256-" in policy


def test_a_wicked_name_stays_a_name(tmp_path):
    config = {"model": WICKED, "data": WICKED}
    run = report.read_run(write_run(tmp_path / "run", config=config), name=WICKED)
    reader = Reader(report.make_page([run, report.read_run(write_run(tmp_path / "other"))]))
    assert [name for name, _ in reader.found].count("script") == 2
    assert not [a for name, a in reader.found if name == "img" or "onerror" in a]
    assert WICKED in reader.text
    assert json.loads(reader.data)["runs"][0]["name"] == WICKED


def test_a_long_run_makes_no_long_page(tmp_path):
    short = report.make_page([report.read_run(write_run(tmp_path / "short", steps=100))])
    long = report.make_page([report.read_run(write_run(tmp_path / "long", steps=3000))])
    assert len(long) < 2 * len(short)


def test_the_charts_numbers_are_the_records(runs):
    series = payload_of(runs)["runs"][0]["series"]
    ours = runs[0]
    assert series["sparsity"][0] == [event["step"] for event in ours.events]
    assert series["cut"][1] == pytest.approx([event["cut"] for event in ours.cuts], rel=1e-4)
    assert series["loss"][1] == pytest.approx(ours.logged("loss")[1], rel=1e-4)
    assert set(series["in_spike"][1]) == {0.5}
    before = dict(zip(*series["pruned_before"], strict=True))
    assert before[16] == 0
    assert before[28] == pytest.approx(next(e["sparsity"] for e in ours.events if e["step"] == 26), rel=1e-4)
    layers = payload_of(runs)["runs"][0]["layers"]
    assert (
        layers["rows"][-1]["sparsity"][-1] == ours.events[-1]["zeros"]["bert.encoder.layer.1.output.dense.weight"] / 100
    )


def test_a_half_width_is_drawn_only_beside_a_cut_that_is_a_size(tmp_path):
    by_size, by_curvature = (
        report.read_run(write_run(tmp_path / score, method={**MGPP, "score": score}))
        for score in ("magnitude", "curvature")
    )
    drawn = [run["series"].keys() for run in payload_of([by_size, by_curvature])["runs"]]
    assert [("cut" in series, "half_width" in series) for series in drawn] == [(True, True), (True, False)]
    assert (by_size.label, by_curvature.label) == ("MGPP 0.9", "MGPP 0.9 by curvature")


def test_a_page_says_that_its_run_is_of_the_recommended_form(tmp_path):
    run = report.read_run(write_run(tmp_path / "run", method={**MGPP, **RECOMMENDED}))
    text = Reader(report.make_page([run])).text
    assert "sparse by MGPP (recommended)" in text
    assert "matrices, by MGPP (recommended), between" in text
    assert run.label == "MGPP (recommended) 0.9"


def test_runs_beside_each_other_show_what_differs_and_say_what_holds_for_all_once(runs):
    text = Reader(report.make_page(runs)).text
    assert "What differs" in text
    assert text.count("One run with one seed") == 1
    assert "The paper's Fig. 2" in text


def test_unfinished_dense_and_bare_runs_have_pages_too(tmp_path):
    for number, settings in enumerate(({"finished": False, "until": 10}, {"method": None}, {"finished": False})):
        run = report.read_run(write_run(tmp_path / str(number), **settings))
        Reader(report.make_page([run]))


def test_the_scripts_put_text_in_as_text():
    for name in SCRIPTS:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", asset(name)), name


def test_markup_escapes_all_but_itself():
    assert tag("p", "a < b", tag("b", "&"), title='"x"', class_="c", hidden=None) == (
        '<p title="&quot;x&quot;" class="c">a &lt; b<b>&amp;</b></p>'
    )
    assert isinstance(table([("a", 1)], head=("", "n"), caption="t"), Html)
    assert table([("<", 1)]).count("&lt;") == 1
