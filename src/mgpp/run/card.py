"""The model card: what was done to which model, in numbers that were measured."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import hf_hub_download

from mgpp.methods import title_of
from mgpp.notebook import score_rows
from mgpp.tasks import Task, find_task

CARD_FILE = "README.md"


def write_card(
    folder: Path, result: Mapping[str, Any], task: Task, *, zeros: Mapping[str, int], sizes: Mapping[str, int]
) -> None:
    (folder / CARD_FILE).write_text(make_card(result, task, zeros=zeros, sizes=sizes), encoding="utf-8")


def make_card(result: Mapping[str, Any], task: Task, *, zeros: Mapping[str, int], sizes: Mapping[str, int]) -> str:
    config = result["config"]
    base = config["model"]
    dense = result["method"] is None
    tags = ["mgpp"] if dense else ["mgpp", "pruned", "sparse", result["method"]["method"]]
    front = {
        # The hub takes only its own ids here, and refuses a card that names a local folder.
        **({} if Path(base).expanduser().is_dir() else {"base_model": base}),
        **_license(base),
        "library_name": "transformers",
        "pipeline_tag": task.pipeline_tag,
        "tags": list(dict.fromkeys(tags)),
    }
    front_matter = yaml.safe_dump(front, sort_keys=False, allow_unicode=True)
    parts = [f"---\n{front_matter}---", _summary(result), _numbers(result), _loading(task), _training(result)]
    if not dense:
        parts += [_method(result), _layers(zeros, sizes)]
    return "\n\n".join(parts) + "\n"


def _summary(result: Mapping[str, Any]) -> str:
    name = Path(result["config"]["model"]).name
    what = f"`{result['config']['model']}` fine-tuned on `{result['config']['data']}`"
    if result["method"] is None:
        return f"# {name}, fine-tuned\n\n{what}. Not pruned."
    done = f"{what} and pruned on the way with {title_of(result['method'])}"
    if result["target_sparsity"] == 0:
        done = f"{what}, with the zeros that it had held"
    if result["added"]:
        return f"# {name}, {result['sparsity']:.1%} fewer weights\n\n{done}. {_merged(result)}"
    return (
        f"# {name}, {result['sparsity']:.1%} sparse\n\n{done}: {result['zeros']:,} of {result['prunable']:,} prunable "
        "weights are zero. Embeddings, biases, norms and the head are dense. An ordinary checkpoint: it stores its "
        "zeros."
    )


def _merged(result: Mapping[str, Any]) -> str:
    return (
        f"Its layers were sums of a low-rank part ({result['added']:,} numbers) and a sparse one ({result['zeros']:,} "
        f"of {result['prunable']:,} weights zero): together {result['sparsity']:.1%} fewer numbers than before. They "
        "are merged here (mgpp.merge_), so that from_pretrained loads an ordinary checkpoint: the sparse part's zeros "
        "are not zeros in it, and the sparsities below are those before merging."
    )


def _numbers(result: Mapping[str, Any]) -> str:
    rows = [f"| {' | '.join(row)} |" for row in sorted(score_rows(result))]
    how = f"{result['eval_rows']:,} evaluation rows ({result['notes'][-1]}), seed {result['seed']}, one run."
    return "\n".join(["| | before | after |", "|---|---|---|", *rows, "", how])


def _loading(task: Task) -> str:
    kind = task.auto_class.__name__
    return (
        f"```python\nfrom transformers import {kind}, AutoTokenizer\n\n"
        f'model = {kind}.from_pretrained("path/to/this/folder")\n'
        'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")\n```'
    )


def _method(result: Mapping[str, Any]) -> str:
    rows = []
    for key, value in result["method"].items():
        step = result["schedule"].get(key, value)
        rows.append(f"| {key} | {value if step == value else f'{value}: step {step}'} |")
    return "\n".join(["## Method", "", "| setting | value |", "|---|---|", *rows])


def _training(result: Mapping[str, Any]) -> str:
    config = result["config"]
    names = ["learning_rate", "lr_end", "warm_up", "max_grad_norm", "batch_size", "accumulate", "precision", "seed"]
    names += ["unlabelled"] if config.get("unlabelled") is not None else []
    rows = [f"| {name} | {config[name]} |" for name in names]
    if result["teacher"] is not None:
        rows += [f"| teacher's {name} | {value} |" for name, value in result["teacher"].items()]
    head = ["## Training", "", "| setting | value |", "|---|---|"]
    task = f"| task | {config['task']} ({find_task(config['task']).about}) |"
    return "\n".join([*head, task, f"| steps | {result['steps']} |", f"| rows | {result['train_rows']} |", *rows])


def _layers(zeros: Mapping[str, int], sizes: Mapping[str, int]) -> str:
    rows = [f"| {name} | {zeros[name]:,} | {sizes[name]:,} | {zeros[name] / sizes[name]:.4f} |" for name in sizes]
    return "\n".join(["## Sparsity by layer", "", "| weight | zeros | of | sparsity |", "|---|---|---|---|", *rows])


def _license(base: str) -> dict[str, str]:
    """The base model's licence holds for what is made of it; where its card names none, neither do we."""
    return license_in(read_front_matter(read_card(base)))


def license_in(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: metadata[key] for key in ("license", "license_name", "license_link") if key in metadata}


def read_card(base: str) -> str:
    """The card of a model folder or a hub id; empty where there is none."""
    folder = Path(base).expanduser()
    try:
        path = folder / CARD_FILE if folder.is_dir() else Path(hf_hub_download(base, CARD_FILE))
        return path.read_text(encoding="utf-8")
    except Exception:  # a card is welcome, not needed: no network, no card, a name that is none
        return ""


def read_front_matter(card: str) -> dict[str, Any]:
    if not card.startswith("---\n") or "\n---" not in card[4:]:
        return {}
    try:
        found = yaml.safe_load(card[4 : card.index("\n---", 4)])
    except yaml.YAMLError:
        return {}
    return found if isinstance(found, dict) else {}
