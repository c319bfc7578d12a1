"""`mgpp prune` and `mgpp evaluate` answer questions and write summaries."""

import json

import pytest

pytest.importorskip("datasets")
pytest.importorskip("rouge_score")

from mgpp.cli import main
from tests.tiny import PRUNABLE
from tests.tiny_tasks import BART_PRUNABLE

TRAINING = ("--sparsity", "0.75", "--set", "start=2", "--set", "end=4", "--set", "every=1", "--max-steps", "5")
CASES = {
    "squad": ("tiny_bert", "tiny_questions", ("--max-length", "16", "--doc-stride", "3"), PRUNABLE),
    "xsum": (
        "tiny_bart",
        "tiny_documents",
        ("--max-length", "32", "--target-length", "8", "--beams", "2"),
        BART_PRUNABLE,
    ),
}


@pytest.mark.parametrize("task", CASES)
def test_a_task_is_pruned_and_then_scored_the_same(task, request, tmp_path, capsys):
    model, data, reading, prunable = CASES[task]
    rows = str(request.getfixturevalue(data))
    told = ["--task", task, *reading, "--device", "cpu", "--json"]
    output = str(tmp_path / "out")
    assert main(["prune", str(request.getfixturevalue(model)), rows, "-o", output, *told, *TRAINING]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["task"], result["zeros"]) == (task, int(0.75 * prunable))
    assert main(["evaluate", output, rows, *told]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert (scored["metrics"], scored["zeros"]) == (result["after"], result["zeros"])


@pytest.mark.parametrize(
    ("task", "wrong", "line"),
    [
        ("squad", ("--doc-stride", "40"), "windows overlap by doc_stride=40: raise max_length"),
        ("squad", ("--text-pair", "paragraph"), "train has no column 'paragraph'"),
        ("xsum", ("--beams", "0"), "beams=0: it must be at least 1"),
        ("xsum", ("--target-length", "500"), "at most the 64 positions of the model's decoder"),
    ],
)
def test_what_does_not_fit_is_one_line_before_any_training(task, wrong, line, request, tmp_path, capsys):
    model, data, reading, _ = CASES[task]
    places = [str(request.getfixturevalue(name)) for name in (model, data)]
    output = tmp_path / "out"
    assert main(["prune", *places, "-o", str(output), "--task", task, *reading, *TRAINING, *wrong]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert line in told[-1]
    assert not output.exists()
