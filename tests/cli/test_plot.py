"""`mgpp plot`: a figure by its name, into the files that are named; a mistake is one line."""

import json

import pytest

pytest.importorskip("matplotlib")

from mgpp.cli import main
from tests.report.runs import L2, write_run


def test_figures_are_written_where_told(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [str(write_run(tmp_path / "ours")), str(write_run(tmp_path / "theirs", method=L2))]
    assert main(["plot", "weights", *runs, "-o", "fig/2.svg", "-o", "2.png"]) == 0
    assert capsys.readouterr().out.splitlines() == ["fig/2.svg", "2.png"]
    assert (tmp_path / "fig" / "2.svg").exists()
    assert main(["plot", "penalties", "--spike-var", "1e-5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"figure": "penalties", "written": ["penalties.pdf"]}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["histogram"], "figure='histogram' is not one of penalties, landscapes, weights"),
        (["weights"], "weights is made from runs: name the folder"),
        (["penalties", "run"], "penalties is made from no run: leave run out"),
        (["layers", "run", "run2"], "layers is made from one run: 2 folders are given"),
        (["layers", "run", "--spike-var", "1"], "layers is made from one run: leave spike_var out"),
        (["layers", "run", "-o", "x.gif"], "x.gif: a figure is written as .pdf, .svg or .png"),
        (["layers", "nowhere"], "no folder nowhere"),
        (["metric", "run"], "no results.json in run: name the folder that mgpp compare wrote"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("run", "run2"):
        write_run(tmp_path / name)
    before = sorted(tmp_path.rglob("*"))
    assert main(["plot", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert told in err
    assert sorted(tmp_path.rglob("*")) == before
