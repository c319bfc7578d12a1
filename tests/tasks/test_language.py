"""Language modelling on raw text: learned while pruned, scored token by token, resumed to the same bits."""

import json
import math
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

datasets = pytest.importorskip("datasets")

import mgpp  # noqa: E402
from mgpp.cli import main  # noqa: E402
from mgpp.run import RunConfig, RunInterrupted, evaluate, run  # noqa: E402
from mgpp.tasks import Source, training_task  # noqa: E402
from mgpp.tasks.blocks import stack  # noqa: E402
from tests.run.test_resume import Killed, outcome, stop_with  # noqa: E402
from tests.tiny import FILLER, GOOD, PRUNABLE, At, documents, save_tiny_decoder, write_jsonl  # noqa: E402

LLAMA_PRUNABLE = 2 * (4 * 16 * 16 + 3 * 16 * 32)


@pytest.fixture
def mlm(tiny_bert, tiny_corpus, tmp_path) -> RunConfig:
    return RunConfig(
        model=str(tiny_bert),
        data=str(tiny_corpus),
        output=str(tmp_path / "out"),
        task="mlm",
        method=mgpp.MGPP(sparsity=0.5, start=5, end=20, every=5),
        max_length=32,
        max_steps=30,
        batch_size=8,
        learning_rate=1e-2,
        logging_steps=5,
        save_steps=10,
        device="cpu",
    )


@pytest.fixture
def clm(mlm, tiny_llama) -> RunConfig:
    return replace(mlm, task="clm", model=str(tiny_llama))


def test_a_masked_language_model_learns_while_it_is_pruned(mlm):
    result = run(replace(mlm, max_steps=120, eval_batch_size=5))
    assert result["zeros"] == int(0.5 * PRUNABLE)
    assert (result["metric"], result["lower_is_better"]) == ("perplexity", True)
    assert result["after"]["perplexity"] < 0.5 * result["before"]["perplexity"]
    assert any("brings no masked language model head: it gets a new one" in note for note in result["notes"])
    AutoModelForMaskedLM.from_pretrained(mlm.output)
    card = (Path(mlm.output) / "README.md").read_text()
    assert "pipeline_tag: fill-mask" in card
    assert "AutoModelForMaskedLM.from_pretrained" in card
    scored = evaluate(mlm.output, Source(data=mlm.data, max_length=32), task="mlm", device="cpu", batch_size=64)
    assert scored["metrics"] == pytest.approx(result["after"], rel=1e-5)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_decoder_learns_while_it_is_pruned(kind, clm, tmp_path):
    model = save_tiny_decoder(tmp_path / kind, kind=kind)
    result = run(replace(clm, model=str(model), max_steps=60))
    assert result["zeros"] == int(0.5 * result["prunable"])
    assert result["after"]["perplexity"] < 0.5 * result["before"]["perplexity"]
    AutoModelForCausalLM.from_pretrained(clm.output)


@pytest.mark.parametrize("task", ["mlm", "clm"])
def test_perplexity_is_that_of_all_tokens_whatever_the_batches(task, mlm, clm):
    config = mlm if task == "mlm" else clm
    made = training_task(task, config.model, config.source, seed=0)
    torch.manual_seed(config.seed)
    model = made.load_model().eval()
    model.save_pretrained(config.output)
    made.tokenizer.save_pretrained(config.output)
    rows = stack([made.evaluation[number] for number in range(len(made.evaluation))])
    shift = 1 if task == "clm" else 0
    with torch.no_grad():
        logits = model(input_ids=rows["input_ids"]).logits[:, : rows["labels"].shape[1] - shift]
    labels = rows["labels"][:, shift:]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100).item()
    for batch_size in (3, 64):
        source = replace(config.source, data=config.data)
        metrics = evaluate(config.output, source, task=task, batch_size=batch_size, device="cpu")["metrics"]
        assert metrics == pytest.approx({"loss": loss, "perplexity": math.exp(loss)}, rel=1e-5)


@pytest.mark.parametrize(
    ("task", "more", "stop", "error"),
    [
        ("mlm", {}, 22, Killed),  # of 11 steps to an epoch
        ("mlm", {"accumulate": 2, "workers": 1}, 14, KeyboardInterrupt),
        ("mlm", {"stream": True}, 22, Killed),
        ("clm", {"stream": True, "accumulate": 2}, 14, KeyboardInterrupt),
    ],
)
def test_a_stopped_run_resumes_to_the_same_bits(task, more, stop, error, mlm, clm, tmp_path):
    config = replace(mlm if task == "mlm" else clm, **more)
    whole = replace(config, output=str(tmp_path / "whole"), workers=0)
    run(whole)
    with pytest.raises((RunInterrupted, Killed)):
        run(config, callbacks=[At(stop, stop_with(error))])
    run(config, resume=True)
    assert outcome(config) == outcome(whole)


def test_a_stream_counts_its_blocks_as_told_or_as_it_will_read(mlm):
    streamed = replace(mlm, stream=True, method=None)
    assert run(replace(streamed, max_steps=3))["train_rows"] == 3 * 8
    told = replace(streamed, train_size=50, max_steps=None, epochs=2.0)
    result = run(told, overwrite=True)
    assert (result["train_rows"], result["steps"]) == (50, 14)


def test_a_stream_without_validation_is_scored_on_its_first_documents_and_does_not_learn_from_them(
    tiny_llama, tmp_path
):
    rows = [*documents(200), *({"text": " ".join(GOOD * 3)} for _ in range(50))]
    source = Source(data=str(write_jsonl(tmp_path / "all.jsonl", rows)), stream=True, max_length=32)
    task = training_task("clm", str(tiny_llama), source, seed=0)
    assert "the first 200 of the stream are held out" in task.notes[-1]
    words = {int(word) for block in islice(task.train.blocks(), 40) for word in block["input_ids"]}
    assert words == set(task.tokenizer.convert_tokens_to_ids([*GOOD, "</s>"]))
    scored = {int(word) for number in range(task.eval_rows) for word in task.evaluation[number]["input_ids"]}
    assert scored == set(task.tokenizer.convert_tokens_to_ids([*FILLER, "</s>"]))


def test_a_stream_may_be_an_object_and_is_scored_alike_later(mlm, tiny_corpus):
    files = {part: str(tiny_corpus / f"{part}.jsonl") for part in ("train", "validation")}
    stream = datasets.load_dataset("json", data_files=files, streaming=True)
    result = run(replace(mlm, data=stream, max_steps=6, method=None))
    assert result["config"]["data"] == "datasets:train (a stream), validation (a stream)"
    source = Source(data=mlm.data, max_length=32, stream=True)
    assert evaluate(mlm.output, source, task="mlm", device="cpu")["metrics"] == pytest.approx(result["after"])


def test_a_method_that_samples_gradients_samples_blocks(mlm):
    few = {"num_grads": 4, "block": 8, "batch_size": 4}
    result = run(replace(mlm, max_steps=6, method=mgpp.OBERT(sparsity=0.5, start=1, end=4, every=2, **few)))
    assert result["zeros"] == int(0.5 * PRUNABLE)


def test_a_corpus_may_be_plain_text(tiny_bert, tmp_path):
    lines = "\n\n".join(row["text"] for row in documents(40))
    (tmp_path / "corpus.txt").write_text(lines, encoding="utf-8")
    task = training_task("mlm", str(tiny_bert), Source(data=str(tmp_path / "corpus.txt"), max_length=16), seed=0)
    assert len(task.train) > 10


@pytest.mark.parametrize(
    ("rows", "change", "told"),
    [
        ([{"words": "the film"}], {}, r"which column holds the text\? .* has words: name it \(--text\)"),
        (documents(20), {"text": "story"}, "train has no column 'story': it has text"),
        ([*documents(20), {"text": None}], {}, "row 20 of train has no text in 'text'"),
        ([*documents(20), {"text": None}], {"stream": True}, "row 20 of train has no text in 'text'"),
        ([{"text": 3}] * 20, {}, "row 0 of train: text=3 is int, not text"),
        (documents(3), {"max_length": 128}, "train holds less text than one block of max_length=128 tokens"),
        (documents(3), {"max_length": 128, "stream": True}, "holds less text than one block of max_length=128 tokens"),
        (documents(20), {"batch_size": 64}, r"\d+ training rows do not fill one batch of 64: lower --batch-size"),
        (documents(20), {"max_length": 512}, "max_length=512 is more than the 128 tokens that the model"),
        (documents(20), {"task": "clm"}, "is a bert, which sees the words it should predict: use --task mlm"),
        (documents(20), {"stream": True, "max_steps": None}, "a stream has no end: give --max-steps"),
        (documents(20), {"stream": True, "method": mgpp.OBERT(sparsity=0.5)}, "a stream has none: leave --stream out"),
        (documents(20), {"group_by_length": True}, "are all of one length: leave --group-by-length out"),
        (documents(20), {"task": "text", "stream": True}, "only language modelling reads a stream"),
    ],
)
def test_what_cannot_be_learned_from_is_refused_before_anything_is_written(rows, change, told, mlm, tmp_path):
    write_jsonl(tmp_path / "data" / "train.jsonl", rows)
    write_jsonl(tmp_path / "data" / "validation.jsonl", documents(30))
    with pytest.raises(ValueError, match=told):
        run(replace(mlm, data=str(tmp_path / "data"), **change))
    assert not Path(mlm.output).exists()


def test_a_decoder_cannot_fill_in_masks(clm):
    with pytest.raises(ValueError, match="is a llama, which cannot fill in masked words: use --task clm"):
        run(replace(clm, task="mlm"))


def test_a_language_model_is_taught_by_one_of_its_kind(mlm, clm, tmp_path):
    dense = replace(clm, method=None, output=str(tmp_path / "dense"), max_steps=4)
    run(dense)
    result = run(replace(clm, teacher=dense.output, distil_weight=0.9))
    assert result["zeros"] == int(0.5 * LLAMA_PRUNABLE)
    with pytest.raises(ValueError, match="has no MaskedLM head: fine-tune it first"):
        run(replace(mlm, teacher=mlm.model, output=str(tmp_path / "refused")))


def test_pruned_upstream_then_fine_tuned_with_the_mask_held(mlm, tiny_reviews, tmp_path, capsys):
    """What the paper calls upstream pruning, by two commands."""
    upstream, downstream = tmp_path / "upstream", tmp_path / "downstream"
    shared = ["--max-steps=30", "--batch-size=8", "--lr=1e-2", "--device=cpu", "--json"]
    ramp = ["--sparsity=0.5", "--set=start=5", "--set=end=20"]
    words = ["prune", mlm.model, mlm.data, "-o", str(upstream), "--task=mlm", "--max-length=32", *ramp, *shared]
    assert main(words) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(["finetune", str(upstream), str(tiny_reviews), "-o", str(downstream), "--hold-mask", *shared]) == 0
    second = json.loads(capsys.readouterr().out)
    assert first["zeros"] == second["zeros_before"] == second["zeros"] == int(0.5 * PRUNABLE)
    assert second["task"] == "text"
    assert zeros_of(upstream) == zeros_of(downstream)


def zeros_of(folder: Path) -> dict[str, list[int]]:
    from safetensors.torch import load_file

    saved = load_file(folder / "model.safetensors")
    pruned = {name: weight for name, weight in saved.items() if "encoder.layer" in name and weight.ndim == 2}
    return {name: (weight.flatten() == 0).nonzero().flatten().tolist() for name, weight in pruned.items()}
