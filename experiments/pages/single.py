"""Experiments of a few runs, each a JSON file of `mgpp finetune` or `mgpp prune`."""

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

from experiments.pages.text import joined, made_by, spread, table

EXPERIMENTS = Path(__file__).parent.parent
# How run.sh calls what a run does, and how it is shown; the sparsity follows its name.
FORMS = {
    "dense": "dense",
    "gmp": "GMP",
    "platon": "PLATON",
    "platonfaster": "PLATON, faster",
    "mgpp": "MGPP (paper)",
    "recommended": "MGPP recommended",
    "faster": "MGPP recommended, faster",
}
TASKS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")


def read(folder: str, name: str) -> dict[str, Any]:
    return json.loads((EXPERIMENTS / folder / "results" / f"{name}.json").read_text(encoding="utf-8"))


def read_all(folder: str) -> list[tuple[str, dict[str, Any]]]:
    """Whatever results there are, each with its form: the dense one first, then from the lowest sparsity up."""
    names = sorted(path.stem for path in (EXPERIMENTS / folder / "results").glob("*.json"))
    found = [(re.split("[-@]", name)[0], read(folder, name)) for name in names]
    forms = list(FORMS)
    return sorted(found, key=lambda each: (each[1]["target_sparsity"], forms.index(each[0])))


def levels() -> str:
    found = {task: read("levels", task) for task in TASKS}
    rows = [
        [
            task,
            f"{result['train_rows']:,}",
            f"{result['eval_rows']:,}",
            ", ".join(f"{name} {value:.3f}" for name, value in result["after"].items() if "loss" not in name),
            f"{result['loader_share']:.1%}",
        ]
        for task, result in found.items()
    ]
    head = ["task", "trained on", "scored on", "dense", "waiting for data"]
    return joined(table(head, rows), made_by("experiments/levels/run.sh MODEL DATA OUT", found.values()))


def squad() -> str:
    """A row for each form and sparsity, of all seeds that there are."""
    found = read_all("squad")
    rows = []
    for (form, sparsity), each in groupby(found, key=lambda each: (each[0], each[1]["target_sparsity"])):
        scores = [result["after"] for _, result in each]
        of_both = [[score[name] for score in scores] for name in ("exact_match", "f1")]
        count = len(scores)
        rows.append([FORMS[form], f"{sparsity:.0%}", str(count), *[spread(values, count) for values in of_both]])
    command = "experiments/squad/run.sh MODEL DATA OUT --train-split train_partial --epochs 4"
    head = ["", "sparsity", "seeds", "exact match", "F1"]
    return joined(table(head, rows), made_by(command, [result for _, result in found]))


WRITER = "flan-T5-small as tuned to write titles (77M weights, read from int8; the package is MIT, flan-T5 Apache-2.0)"
# What is summarised, and which part of it: how many articles of it are trained on and scored on comes after.
SUMMARISED = {
    "cnn_dailymail": ("CNN/DailyMail", "the validation split of CNN/DailyMail (Apache-2.0)"),
    "xsum": ("XSum", "parts of XSum's test and validation splits (articles of the BBC; no licence stated)"),
}


def summaries(experiment: str) -> str:
    """A section of its own, and none at all before a run has come back."""
    found = read_all(experiment)
    if not found:
        return ""
    title, data = SUMMARISED[experiment]
    first = found[0][1]
    about = (
        f"{WRITER}, on {data}: {first['train_rows']:,} articles to train on, {first['eval_rows']:,} to be scored on, "
        f"documents of at most {first['config']['max_length']} tokens, {first['config']['epochs']:g} epochs, "
        f"one seed, nothing tuned; {first['config']['beams']} beams."
    )
    names = ("rouge1", "rouge2", "rougeLsum")
    rows = [
        [FORMS[form], f"{result['sparsity']:.0%}", *[f"{100 * result['after'][name]:.1f}" for name in names]]
        for form, result in found
    ]
    made = made_by(f"experiments/{experiment}/run.sh MODEL DATA OUT", [result for _, result in found])
    head = ["", "sparsity", "ROUGE-1", "ROUGE-2", "ROUGE-Lsum"]
    return joined(f"## Summaries: {title}", about, table(head, rows), made)


def decoder() -> str:
    """A section of its own, and none at all before a run has come back."""
    found = read_all("decoder")
    if not found:
        return ""
    first = found[0][1]
    config = first["config"]
    about = (
        "SmolLM2-135M-Instruct (Apache-2.0), a decoder whose weights are read from a file of 4 bits each, goes on with "
        "language modelling on WikiText-2 (CC BY-SA): "
        f"{first['steps']:,} steps of {config['batch_size']} blocks of {config['max_length']} tokens, learning rate "
        f"{config['learning_rate']:g}, one seed, nothing tuned. Perplexity on the validation set: lower is better."
    )
    rows = [["before training", f"{first['zeros_before'] / first['prunable']:.0%}", _perplexity(first["before"])]]
    rows += [[FORMS[form], f"{result['sparsity']:.0%}", _perplexity(result["after"])] for form, result in found]
    command = "experiments/decoder/run.sh MODEL DATA OUT"
    made = made_by(command, [result for _, result in found])
    return joined("## A decoder on WikiText-2", about, table(["", "sparsity", "perplexity"], rows), made)


def _perplexity(scores: dict[str, float]) -> str:
    return f"{scores['perplexity']:.2f}"


def upstream() -> str:
    found = {name: read("upstream", name) for name in ("held", "downstream")}
    told = {"held": "removed upstream, held on SST-2", "downstream": "removed on SST-2"}
    rows = [
        [told[name], f"{result['sparsity']:.0%}", f"{result['after']['accuracy']:.3f}"]
        for name, result in found.items()
    ]
    command = "experiments/upstream/run.sh MODEL WIKIPEDIA SST2 OUT 1500"
    return joined(table(["", "sparsity", "accuracy"], rows), made_by(command, found.values()))
