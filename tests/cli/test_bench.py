"""`mgpp bench` in a terminal: whole numbers in 80 columns, what they are compared with, and a sign of life."""

import json
from pathlib import Path

import pytest
from rich.console import Console
from transformers import BertConfig, BertForSequenceClassification

from mgpp import save_sparse
from mgpp.artifact import source
from mgpp.bench import inference
from mgpp.bench.overhead import SHAPES, Shape
from mgpp.cli import main
from mgpp.cli.bench import WHAT, as_table, heading, print_table

RESULTS = Path(__file__).parent.parent.parent / "benchmarks" / "results"
TINY = BertConfig(
    vocab_size=30_000, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
    max_position_embeddings=32,
)  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore:no layer of BertModel is faster sparse")


@pytest.fixture(autouse=True)
def tiny_shape(monkeypatch):
    monkeypatch.setitem(SHAPES, "tiny", Shape(TINY, 1, 8, together=1))
    monkeypatch.setattr(inference, "REST", 0.0)


def newest_of(what: str) -> dict:
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    entries = [entry for entries in found if isinstance(entries, list) for entry in entries]
    return [entry for entry in entries if entry.get("what") == what and "rows" in entry][-1]


def printed(rows: list[dict], *, width: int = 80) -> list[str]:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    print_table(as_table(rows), console)
    return console.export_text().splitlines()


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("width", [80, 20])
def test_no_number_and_no_name_is_cut(what, width):
    rows = newest_of(what)["rows"]
    lines = printed(rows, width=width)
    assert words_of(lines) == words_of(printed(rows, width=300))
    assert width < 80 or max(map(len, lines)) <= (83 if what == "semi-structured" else 80)


def words_of(lines: list[str]) -> list[str]:
    return sorted(word for line in lines for word in line.split() if not word.startswith("─"))


def test_what_all_rows_share_stands_above_the_table_and_numbers_are_short():
    facts = {"shape": "minilm", "length": 128, "batch": 1, "runs": 15, "device_ms": None}
    plain = {"name": "torch fp32", "median_ms": 24.5261, "low_ms": 24.1049, "high_ms": 25.0001, "sparsity": None}
    sparse = {**plain, "name": "sparse 90%", "median_ms": 1234.5678, "sparsity": 0.8999999, "kept_bytes": 84_934_656}
    rows = [{**plain, "kept_bytes": 0, **facts}, {**sparse, **facts, "batch": 32}]
    assert heading({"what": "inference", "rows": rows}) == "mgpp bench inference: shape minilm, length 128"
    first, second = (line.split() for line in printed(rows)[-2:])
    assert first == ["torch", "fp32", "24.5", "(24.1–25)", "0", "1"]
    assert second == ["sparse", "90%", "1,235", "(24.1–25)", "0.9", "84.9", "32"]


def test_ratios_say_what_they_are_to_and_progress_goes_to_stderr(capsys):
    words = ["bench", "--shape", "tiny", "--rounds", "1", "--device", "cpu", "--only", "gmp", "--only", "l2"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == "each ratio is to the plain steps of its own rounds; only the first are shown"
    assert err.splitlines() == ["1 of 2: plain; gmp", "2 of 2: plain; l2"]
    assert main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert [row["name"] for row in json.loads(out)["rows"]] == ["plain", "gmp", "l2"]
    assert err == ""


def test_every_benchmark_tells_how_far_it_is(capsys):
    assert main(["bench", "selection", "--sizes", "10,20", "--rounds", "1", "--device", "cpu"]) == 0
    assert capsys.readouterr().err.splitlines() == ["1 of 2: 10 weights", "2 of 2: 20 weights"]
    words = ["--shape", "tiny", "--length", "8", "--batches", "1,2", "--sparsities", "0.9", "--only", "sparse"]
    assert main(["bench", "inference", "--rounds", "1", *words]) == 0
    assert capsys.readouterr().err.splitlines() == ["1 of 2: batch 1", "2 of 2: batch 2"]


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_models_folder_is_measured_without_its_head(is_sparse, tmp_path, capsys):
    model = BertForSequenceClassification(TINY)
    inference._prune_(model, 0.75, 1)
    save_sparse(model, tmp_path) if is_sparse else model.save_pretrained(tmp_path)
    words = ["--model", str(tmp_path), "--length", "8", "--batches", "2", "--rounds", "1", "--only", "sparse"]
    assert main(["bench", "inference", *words, "--json"]) == 0
    plain, sparse = json.loads(capsys.readouterr().out)["rows"]
    assert (plain["shape"], sparse["name"], sparse["sparsity"]) == (str(tmp_path), "sparse 75%", 0.75)


def test_a_model_that_is_not_found_is_named(monkeypatch, capsys):
    def nowhere(name, **options):
        raise OSError("We couldn't connect to 'https://huggingface.co' to load the files")

    monkeypatch.setattr(source.AutoConfig, "from_pretrained", nowhere)
    assert main(["bench", "--inference", "--model", "nope"]) == 2
    assert "the model 'nope' cannot be loaded: check the name and the connection" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("output", "told"), [("file/x.json", "is a file: name another place"), (".", "is a folder: name a file")]
)
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_measured(output, told, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["bench", "selection", "--sizes", "1e3", "--device", "cpu", "--output", str(tmp_path / output)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"{told} (--output)" in err


def test_a_wrong_side_is_refused_before_a_model_is_fetched(capsys):
    assert main(["bench", "inference", "--model", "./nowhere", "--only", "tensorrt"]) == 2
    assert "only='tensorrt' is not one of" in capsys.readouterr().err
