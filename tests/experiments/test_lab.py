"""The laboratory trains several models as one, and each as if it were alone."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForSequenceClassification

from tests.experiments.conftest import LAB

pytestmark = pytest.mark.usefixtures("lab")


@pytest.fixture
def room(lab, tmp_path, tiny_bert, tiny_reviews):
    from features import main

    models, features = tmp_path / "models", tmp_path / "features"
    models.mkdir()
    shutil.copytree(tiny_bert, models / "minilm")  # tests change it
    data = tmp_path / "data"
    data.mkdir()
    (data / "text").symlink_to(tiny_reviews)
    main(str(tiny_bert), str(data), str(features / "minilm"), "text")
    return {"models": models, "features": features, "cache": tmp_path / "cache", "device": "cpu"}


def cell(name: str, method: dict | None, **more) -> dict:
    shared = {"model": "minilm", "task": "text", "lr": 1e-3, "epochs": 2, "seed": 0, "batch": 8}
    return {"name": name, "method": method, **shared, **more}


def test_cells_are_trained_together_and_pruned_exactly(room):
    from train import train

    ramp = {"sparsity": 0.75, "start": 0.2, "end": 0.7, "every": 2}
    teacher = {"temperature": 2.0, "weight": 0.5, "lr": 1e-3}
    cells = [
        cell("dense", None),
        cell("mgpp", {"method": "mgpp", **ramp}),
        cell("platon", {"method": "platon", **ramp}, teacher=teacher),
        cell("posterior", {"method": "tried", "form": "posterior", **ramp}),
        cell("levelled", {"method": "tried", "form": "levelled", **ramp}),
        cell("followed", {"method": "tried", "form": "curvature", "following": 1.0, **ramp}),
        cell("kept beside", {"method": "tried", "form": "curvature", "fate": "latent", **ramp}),
    ]
    results = train(cells, **room)
    dense, exact, *others = [result["sparsity"] for result in results]
    assert (dense, exact) == (0.0, 0.75)
    # A weight may stay at zero without being among the lowest scores.
    assert all(0.75 <= found < 0.77 for found in others)
    assert all(0 <= result["metrics"]["validation"]["accuracy"] <= 1 for result in results)


def test_tried_scores_are_what_they_say():
    from scores import Levelled, Posterior, Power, curvatures

    torch.manual_seed(0)
    weights, moments = [torch.randn(3, 5), torch.randn(7)], [torch.rand(3, 5) + 0.1, torch.rand(7) + 0.1]
    assert all(map(torch.equal, Power(power=0.0).of(weights, moments), [weight.abs() for weight in weights]))
    torch.testing.assert_close(Power(power=1.0).of(weights, moments), curvatures(weights, moments))
    expected = [weight.abs() * moment**0.375 for weight, moment in zip(weights, moments, strict=True)]
    torch.testing.assert_close(Power(power=0.75).of(weights, moments), expected)
    larger = [moments[0], 9 * moments[1]]
    torch.testing.assert_close(Levelled(power=1.0).of(weights, larger), Levelled(power=1.0).of(weights, moments))
    torch.testing.assert_close(Levelled(power=0.0).of(weights, larger), curvatures(weights, larger))
    posterior = Posterior(examples=50.0, slab_var=0.1)
    for found, weight, moment in zip(posterior.of(weights, moments), weights, moments, strict=True):
        spike, slab = (torch.distributions.Normal(0, (1 / (50 * moment) + var).sqrt()) for var in (0.0, 0.1))
        odds = 2 * (slab.log_prob(weight) - spike.log_prob(weight))
        torch.testing.assert_close(found, torch.nn.functional.softplus(odds))


def test_a_pupil_learns_from_another_model_and_is_no_teacher_itself(room):
    from train import teacher_logits, train

    for folder in (room["models"], room["features"]):
        shutil.copytree(folder / "minilm", folder / "larger")
    other = AutoModelForSequenceClassification.from_pretrained(room["models"] / "larger")
    with torch.no_grad():
        other.bert.embeddings.word_embeddings.weight.mul_(0.5)
    other.save_pretrained(room["models"] / "larger")
    own = {"temperature": 2.0, "weight": 0.5, "lr": 1e-3}
    pupil = cell("dense", None, teacher={**own, "model": "larger"})
    train([pupil], **room)
    (kept,) = room["cache"].iterdir()
    assert kept.name.startswith("larger-text-0-")
    from_larger = teacher_logits(pupil, **room)
    assert not torch.equal(from_larger, teacher_logits({**pupil, "teacher": own}, **room))
    train([cell("dense", None, model="larger")], **room)
    assert torch.equal(from_larger, teacher_logits(pupil, **room))
    longer = {**pupil, "teacher": {**pupil["teacher"], "epochs": 2 * pupil["epochs"]}}
    assert not torch.equal(from_larger, teacher_logits(longer, **room))


@pytest.fixture
def with_unlabelled(room, tmp_path, tiny_bert, tiny_reviews):
    """Eleven rows beside the others that have no label, the first of them of a word that no other row has."""
    from features import main

    data = tmp_path / "more" / "text"
    shutil.copytree(tiny_reviews, data)
    texts = ["hello hello hello", *[f"good film {number}" for number in range(10)]]
    pq.write_table(pa.table({"text": texts}), data / "unlabelled.parquet")
    main(str(tiny_bert), str(data.parent), str(room["features"] / "minilm"), "text")
    return room


def test_rows_without_labels_are_the_teachers_alone(with_unlabelled):
    from rows import describe, read_rows
    from train import loss_of, split, teacher_logits, train

    room = with_unlabelled
    path = room["features"] / "minilm" / "text.safetensors"
    assert describe(path)[1] == ["validation"]
    teacher = {"temperature": 2.0, "weight": 0.5, "lr": 1e-3, "unlabelled": True}
    pupil = cell("dense", None, teacher=teacher, unlabelled=True)
    own, _ = split(path, {**pupil, "teacher": None}, 0, "cpu")
    rows, scored = split(path, pupil, 0, "cpu")
    assert (len(rows) - len(own), list(scored)) == (11, ["validation"])
    assert (rows.labels[len(own) :] < 0).all()
    assert torch.equal(rows.labels[: len(own)], read_rows(path, "train", 0, "cpu").labels)
    taught = teacher_logits(pupil, **room)
    assert len(taught) == len(rows)
    logits = torch.randn(len(rows), 2)
    for some in (torch.arange(8), torch.arange(len(own), len(rows))):  # rows with labels, and rows without
        joined = loss_of(pupil, rows, taught)(logits[some], some)
        soft_alone = loss_of({**pupil, "teacher": {**teacher, "weight": 1.0}}, rows, taught)(logits[some], some)
        task = torch.nn.functional.cross_entropy(logits[some], rows.labels[some]) if some[0] == 0 else 0.0
        torch.testing.assert_close(joined, 0.5 * soft_alone + 0.5 * torch.as_tensor(task))
    (result,) = train([pupil], **room)
    assert result["steps"] == 2 * (len(rows) // 8)
    (alone,) = train([{**pupil, "unlabelled": False}], **room)
    assert alone["steps"] == 2 * (len(own) // 8)


def test_rows_without_labels_are_refused_where_some_are_held_out(with_unlabelled):
    from train import train

    with pytest.raises(ValueError, match="leave out unlabelled, or held_out"):
        train([cell("dense", None, unlabelled=True, held_out=True)], **with_unlabelled)


def test_tokens_that_never_occur_are_left_out_and_the_model_says_the_same(room):
    from rows import read_rows
    from train import load, padding_of

    folder = room["models"] / "minilm"
    path = room["features"] / "minilm" / "text.safetensors"
    rows = read_rows(path, "train", padding_of(folder), "cpu")
    model, whole = load(folder, rows).eval(), AutoModelForSequenceClassification.from_pretrained(folder).eval()
    assert len(model.get_input_embeddings().weight) == len(rows.tokens) < len(whole.get_input_embeddings().weight)
    with safe_open(path, "pt") as file:
        ids, ends = (file.get_tensor(f"train.{key}").long() for key in ("ids", "ends"))
    assert torch.equal(rows.tokens[rows.ids[1, : ends[1] - ends[0]]], ids[ends[0] : ends[1]])
    batch = rows.batch(torch.arange(4), 16)
    expected = whole.bert(**{**batch, "input_ids": rows.tokens[batch["input_ids"]]}).last_hidden_state
    assert torch.equal(model.bert(**batch).last_hidden_state, expected)


def test_a_head_that_the_model_brings_is_not_kept(room):
    from rows import read_rows
    from train import load, padding_of

    folder = room["models"] / "minilm"
    AutoModelForSequenceClassification.from_pretrained(folder).save_pretrained(folder)
    rows = read_rows(room["features"] / "minilm" / "text.safetensors", "train", padding_of(folder), "cpu")
    brought = AutoModelForSequenceClassification.from_pretrained(folder)
    torch.manual_seed(1)
    model = load(folder, rows)
    assert not (model.classifier.weight == brought.classifier.weight).any()
    assert torch.equal(model.bert.pooler.dense.weight, brought.bert.pooler.dense.weight)


def test_alone_or_together_a_cell_gives_the_same(room):
    from train import train

    # Without dropout nothing is random but the order of the rows, which a stack shares with its first cell.
    path = room["models"] / "minilm" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}))
    ramp = {"method": "mgpp", "sparsity": 0.75, "start": 0.2, "end": 0.7, "every": 2}
    alone = train([cell("mgpp", ramp)], **room)[0]
    together = train([cell("mgpp", ramp), cell("gmp", {**ramp, "method": "gmp"})], **room)[0]
    assert together["last"]["cut"] == pytest.approx(alone["last"]["cut"], rel=1e-3)
    assert together["metrics"] == alone["metrics"]


@pytest.mark.parametrize(
    ("method", "more"), [("losparse", {"ratio": 0.1}), ("obert", {"num_grads": 4, "block": 8, "batch_size": 4})]
)
def test_a_method_of_its_own_kind_is_stacked_with_its_like(room, method, more):
    from train import train

    table = {"method": method, "sparsity": 0.5, "start": 0.2, "end": 0.7, "every": 4, **more}
    results = train([cell("a", table), cell("b", table, seed=1, lr=2e-3)], **room)
    assert [result["stacked"] for result in results] == [2, 2]
    assert all(0.5 <= result["sparsity"] < 0.55 for result in results)


def test_the_learning_rate_rises_stays_and_falls():
    from train import slope

    assert [slope(t, 100) for t in (3, 6, 53, 100)] == [0.5, 1.0, 0.5, 0.0]
    assert [slope(t, 100, level=0.7) for t in (3, 6, 70, 85, 100)] == [0.5, 1.0, 1.0, 0.5, 0.0]


def test_what_is_alike_goes_together_and_what_cannot_goes_alone():
    from work import stacks_of

    cells = [
        cell("a", None),
        cell("b", {"method": "losparse"}),
        cell("c", {"method": "gmp"}),
        cell("d", None, epochs=3),
        cell("e", {"method": "losparse"}),
        cell("f", {"method": "tried"}),
        cell("g", None, model="another"),
        cell("h", None, model="another"),
        cell("i", {"method": "losparse", "ratio": 0.02}),
    ]
    stacks = [[one["name"] for one in stack] for stack in stacks_of(cells, most=8)]
    assert stacks == [["a", "c"], ["b", "e"], ["d"], ["f"], ["g"], ["h"], ["i"]]


def test_a_stack_that_does_not_fit_is_trained_in_halves():
    from work import all_of

    def train(cells: list[str]) -> list[str]:
        if len(cells) > 2 or cells == ["too large"]:
            raise torch.OutOfMemoryError(f"no room for {len(cells)}")
        return [f"{each} of {len(cells)}" for each in cells]

    assert all_of(list("abcde"), train) == ["a of 2", "b of 2", "c of 1", "d of 2", "e of 2"]
    with pytest.raises(torch.OutOfMemoryError, match="no room for 1"):
        all_of(["too large"], train)


def test_a_cut_takes_the_lowest_of_every_matrix_and_is_taken_back(room):
    import cut
    from rows import read_rows
    from train import load, padding_of

    folder = room["models"] / "minilm"
    rows = read_rows(room["features"] / "minilm" / "text.safetensors", "train", padding_of(folder), "cpu")
    rows = replace(rows, labels=torch.linspace(0, 5, len(rows)))
    model = load(folder, rows).train()
    watched = cut.Watched(model)
    before = [weight.detach().clone() for weight in watched.weights]
    chosen = next(cut.steps(rows, seed=0))
    index = torch.as_tensor(chosen)
    model(**rows.batch(index, rows.width(chosen))).logits.square().mean().backward()
    watched.hear(t=1, share=0.5)
    for weight, score, total in zip(watched.weights, watched.scores, watched.sums, strict=True):
        torch.testing.assert_close(total, -0.5 * weight.grad * weight.detach())
        assert torch.equal(score.sign(), total.sign())  # Adam's first step is as long for every score
    found = cut.look(model, watched, rows, seed=0)
    assert [(each["by"], each["share"]) for each in found["cuts"]] == list(product(watched.kinds(0), cut.SHARES))
    assert all(torch.equal(weight, old) for weight, old in zip(watched.weights, before, strict=True))
    assert model.training
    watched.cut_(watched.kinds(0)["magnitude"], 0.1)
    for weight, old in zip(watched.weights, before, strict=True):
        gone = old[weight == 0].abs()
        assert len(gone) == int(0.1 * old.numel())
        assert gone.max() <= old[weight != 0].abs().min()


def test_runs_that_were_looked_at_become_the_papers_second_figure(room, tmp_path):
    pytest.importorskip("matplotlib")
    from experiments.glue import figure
    from train import train

    from mgpp.report import read_run

    ramp = {"sparsity": 0.75, "start": 0.2, "end": 0.7, "every": 2}
    methods = {
        "MGPP curvature": {"method": "mgpp", "score": "curvature", **ramp},
        "MGPP (paper)": {"method": "mgpp", **ramp},
        "L2": {"method": "l2", **ramp},
    }
    cells = [cell(name, method, looks=10) for name, method in methods.items()]
    results = tmp_path / "results"
    results.mkdir()
    lines = [{"cell": told, **result} for told, result in zip(cells, train(cells, **room), strict=True)]
    (results / "minilm-figure.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (drawn,) = figure.draw_all(tmp_path / "figures", tmp_path / "runs", results)
    assert drawn.name == "fig2-minilm.svg"
    text = drawn.read_text(encoding="utf-8")
    # In the left panel all of them; in the right one only those whose cut is a size.
    assert [text.count(f">{name}<") for name in methods] == [1, 2, 2]
    run = read_run(tmp_path / "runs" / "minilm" / "MGPP (paper)")
    assert run.events[-1]["cut"] == lines[1]["last"]["cut"]
    assert run.looks[-1]["step"] == run.last == lines[1]["steps"]
    assert run.schedule["start"] == round(0.2 * run.last)


def work(cells: list[dict], room: dict, folder: Path, *options: str) -> subprocess.Popen:
    (folder / "cells.json").write_text(json.dumps(cells))
    command = [sys.executable, str(LAB / "work.py"), "cells.json", "results.jsonl", "--models", str(room["models"])]
    more = ["--features", str(room["features"]), "--cache", str(room["cache"]), *options]
    env = {**os.environ, "PYTHONPATH": str(LAB.parent.parent / "src")}
    nowhere = subprocess.DEVNULL
    return subprocess.Popen([*command, *more], cwd=folder, env=env, stdout=nowhere, stderr=nowhere)


def test_cells_that_are_not_begun_in_time_are_not_waited_for(room, tmp_path):
    method = {"method": "gmp", "sparsity": 0.5, "note": "x" * 2000}  # together more than a pipe holds
    cells = [cell(f"cell {i}", method, epochs=i) for i in range(1, 100)]
    assert work(cells, room, tmp_path, "--seconds", "0").wait(timeout=100) == 0
    assert (tmp_path / "results.jsonl").read_text() == ""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks Linux for a process's children")
def test_a_worker_ends_with_its_parent_though_that_is_killed(room, tmp_path):
    lab = work([cell("short", None), cell("endless", None, epochs=1_000_000)], room, tmp_path)
    results = tmp_path / "results.jsonl"
    wait_until(lambda: results.exists() and results.read_text())  # so the endless one has begun, or is about to
    children = Path(f"/proc/{lab.pid}/task/{lab.pid}/children").read_text().split()
    lab.kill()
    lab.wait()
    assert children
    wait_until(lambda: not any(map(is_running, children)))


def is_running(pid: str) -> bool:
    """A zombie, whom nobody has asked for its end yet, is not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def wait_until(happens: Callable[[], object]) -> None:
    ends = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < ends
        time.sleep(0.1)
