"""The committed results of the experiments as Markdown tables, filled into the pages that name them.

python experiments/tables.py docs/results.md docs/settings.md
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Rows = list[list[str]]


def read(*parts: str) -> dict[str, Any]:
    return json.loads(HERE.joinpath(*parts).read_text(encoding="utf-8"))


def markdown(head: list[str], rows: Rows, made: str) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(["| " + " | ".join(line) + " |" for line in lines] + ["", made])


def made_by(command: str, result: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {value}" for name, value in result["versions"].items() if name != "mgpp")
    where = result["hardware"]["gpu"] or result["hardware"]["processor"]
    return f"`{command}`, commit {result['commit'][:7]}: {where}, {versions}."


def levels() -> str:
    found = {task: read("levels", "results", f"{task}.json") for task in TASKS}
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
    return markdown(head, rows, made_by("experiments/levels/run.sh MODEL DATA OUT", found["sst2"]))


TASKS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")


def squad() -> str:
    found = {name: read("squad", "results", f"{name}.json") for name in ("dense", "mgpp-80")}
    rows = [
        [name, f"{result['sparsity']:.0%}", f"{result['after']['exact_match']:.3f}", f"{result['after']['f1']:.3f}"]
        for name, result in found.items()
    ]
    command = "experiments/squad/run.sh MODEL DATA OUT --train-split train_partial --epochs 4"
    return markdown(["", "sparsity", "exact match", "F1"], rows, made_by(command, found["dense"]))


def upstream() -> str:
    found = {name: read("upstream", "results", f"{name}.json") for name in ("held", "downstream")}
    told = {"held": "removed upstream, held on SST-2", "downstream": "removed on SST-2"}
    rows = [
        [told[name], f"{result['sparsity']:.0%}", f"{result['after']['accuracy']:.3f}"]
        for name, result in found.items()
    ]
    command = "experiments/upstream/run.sh MODEL WIKIPEDIA SST2 OUT 1500"
    return markdown(["", "sparsity", "accuracy"], rows, made_by(command, found["downstream"]))


def lines_of(name: str) -> list[dict[str, Any]]:
    text = (HERE / "glue" / "results" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [line for line in map(json.loads, text.splitlines()) if "error" not in line]


def candidates() -> str:
    """Of each method on STS-B at 90% the best of its candidates, and its others."""
    return _on_stsb(lambda name: name not in VARIATIONS, ["", "best Pearson", "with", "the other candidates"])


def variations() -> str:
    """The same for what was changed in one of them."""
    return _on_stsb(lambda name: name in VARIATIONS, ["", "Pearson", "with"])


def _on_stsb(wanted: Callable[[str], bool], head: list[str]) -> str:
    found: dict[str, list[tuple[float, str]]] = {}
    lines = [
        line for line in lines_of("minilm-choose") if line["cell"]["task"] == "stsb" and wanted(line["cell"]["name"])
    ]
    for line in lines:
        cell, score = line["cell"], line["metrics"]["held_out"][line["metric"]]
        own = [f"{key} {(cell['method'] or {})[key]:g}" for key in KNOBS if key in (cell["method"] or {})]
        found.setdefault(cell["name"], []).append((score, ", ".join([f"lr {cell['lr']:g}", *own])))
    rows = [
        [name, f"{max(each)[0]:.3f}", max(each)[1], " ".join(f"{score:.3f}" for score, _ in sorted(each)[-2::-1])]
        for name, each in sorted(found.items(), key=lambda item: -max(item[1])[0])
    ]
    command = "python experiments/lab/work.py CELLS experiments/glue/results/minilm-choose.jsonl"
    return markdown(head, [row[: len(head)] for row in rows], made_by(command, lines[0]))


def strengths() -> str:
    """How the prior's strength matters beside the curvature score."""
    lines = [line for line in lines_of("minilm-choose") if line["cell"]["task"] == "stsb"]
    found = {
        line["cell"]["method"]["strength"]: line["metrics"]["held_out"][line["metric"]]
        for line in lines
        if line["cell"]["lr"] == 1e-4 and line["cell"]["name"] in ("MGPP curvature", "strength 0.001", "strength 1")
    }
    rows = [[f"`strength={strength:g}`", f"{score:.3f}"] for strength, score in sorted(found.items())]
    command = "python experiments/lab/work.py CELLS experiments/glue/results/minilm-choose.jsonl"
    return markdown(["", "Pearson"], rows, made_by(command, lines[0]))


VARIATIONS = (
    "ramp to 0.5", "ramp to 0.85", "ramp from 0", "mask held after the ramp", "first cut at 30%", "spike 1e-7",
    "spike 1e-11", "strength 0.001", "strength 1", "coupled",
)  # fmt: skip
KNOBS = ("strength", "weight", "beta2", "score_penalty", "spike_var_start")
MAKERS: dict[str, Callable[[], str]] = {
    make.__name__: make for make in (levels, squad, upstream, candidates, variations, strengths)
}


def fill(page: str) -> str:
    """Between `<!-- experiment: NAME -->` and `<!-- end -->` stands what the committed results say."""

    def newest(block: re.Match[str]) -> str:
        return f"{block[1]}\n{MAKERS[block[2]]()}\n\n{block[3]}"

    return re.sub(r"(<!-- experiment: (\S+) -->\n).*?(<!-- end -->)", newest, page, flags=re.DOTALL)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(fill(Path(name).read_text(encoding="utf-8")), encoding="utf-8")
