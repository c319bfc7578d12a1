"""`mgpp report`: one page, where it is told or where it belongs; its answers also as JSON."""

import json

import pytest

from mgpp.cli import main
from tests.report.runs import write_run


def test_the_page_of_one_run_lies_in_its_folder(tmp_path, capsys):
    run = write_run(tmp_path / "run")
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().out.strip() == str(run / "report.html")
    assert "<!doctype html>" in (run / "report.html").read_text()


def test_the_page_of_several_lies_here_or_where_told(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [str(write_run(tmp_path / name)) for name in ("a", "b")]
    assert main(["report", *runs]) == 0
    assert (tmp_path / "report.html").exists()
    assert main(["report", *runs, "-o", "pages/both.html"]) == 0
    assert (tmp_path / "pages" / "both.html").exists()


def test_json_holds_every_answer_and_all_advice(tmp_path, capsys):
    runs = [write_run(tmp_path / "run", left_in_spike=0.3), write_run(tmp_path / "dense", method=None)]
    page = tmp_path / "page.html"
    assert main(["report", *map(str, runs), "-o", str(page), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["page"] == str(page)
    ours, dense = told["runs"]
    assert ours["answers"].keys() == {"pruned", "sparsity", "layers", "score", "size", "time", "settled"}
    assert ours["advice"][0]["kind"] == "problem"
    assert (dense["name"], dense["label"], dense["advice"]) == ("dense", "dense", [])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere"], "no folder"),
        (["run", "run"], "is given twice"),
        (["run", "-o", "."], "is a folder: name the file to write"),
        (["run", "-o", "rows.csv"], "rows.csv is no name of a page: end it in .html"),
        ([], "Missing argument"),
    ],
)
def test_a_mistake_is_one_line(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run")
    assert main(["report", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert told in err
