"""A model's folder as one small file, to be carried where nothing can be downloaded, and as a folder again.

    python experiments/weights/pack.py models/flan-t5-small flan.tar.xz
    python experiments/weights/pack.py --unpack flan.tar.xz models/flan-t5-small
    python experiments/weights/pack.py --half MODEL FILE         other weights in bfloat16: half the size, rounded
    python experiments/weights/pack.py MODEL FILE --tokens F...  only the embeddings of tokens in these features

A matrix that was int8 once holds 256 numbers at most: a byte for each weight and a table keep it to the bit. Of a large
vocabulary a few tasks use a part: rows of tokens that are not in their features (experiments/lab/features.py) become 0.
"""

import argparse
import json
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

WEIGHTS = "model.safetensors"
PACKED = "packed.safetensors"
_TABLE = "#table"


def pack(folder: Path, file: Path, *, half: bool = False, features: Sequence[Path] = ()) -> None:
    with tempfile.TemporaryDirectory() as room:
        for other in sorted(folder.iterdir()):
            if other.is_file() and other.suffix not in (".bin", ".safetensors"):
                shutil.copy(other, room)
        weights = load_file(folder / WEIGHTS)
        if features:
            told = _keep_tokens(weights, json.loads((folder / "config.json").read_text(encoding="utf-8")), features)
            with (Path(room) / "README.md").open("a", encoding="utf-8") as card:
                card.write(f"\n{told}\n")
        packed: dict[str, torch.Tensor] = {}
        for name, weight in weights.items():
            packed |= _packed(name, weight, half=half)
        save_file(packed, Path(room) / PACKED)
        with tarfile.open(file, "w:xz", preset=2) as archive:
            for part in sorted(Path(room).iterdir()):
                archive.add(part, part.name)


def _keep_tokens(weights: dict[str, torch.Tensor], config: dict[str, Any], features: Sequence[Path]) -> str:
    words = config["vocab_size"]
    tables = [name for name, weight in weights.items() if weight.ndim == 2 and len(weight) == words]
    if len(tables) != 1:
        found = ", ".join(tables) or "none"
        raise ValueError(f"tables with a row for each of {words} tokens: {found}; leave out --tokens unless it is one")
    used = torch.cat([torch.arange((config.get("pad_token_id") or 0) + 1), *map(_tokens_in, features)]).unique()
    whole = weights[tables[0]]
    weights[tables[0]] = torch.zeros_like(whole).index_copy_(0, used, whole[used])
    names = ", ".join(path.stem for path in features)
    return f"For {names} only: the embeddings of {len(used):,} tokens are as they were, the other rows are zero."


def _tokens_in(features: Path) -> torch.Tensor:
    with safe_open(features, "pt") as file:
        names = [name for name in file.keys() if name.endswith(".ids")]  # noqa: SIM118  (it is no dict)
        return torch.cat([file.get_tensor(name).long() for name in names])


def unpack(file: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file) as archive:
        archive.extractall(folder, filter="data")
    packed = load_file(folder / PACKED)
    weights = {
        name: packed[name + _TABLE][weight.int()] if name + _TABLE in packed else weight.float()
        for name, weight in packed.items()
        if not name.endswith(_TABLE)
    }
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / PACKED).unlink()


def _packed(name: str, weight: torch.Tensor, *, half: bool) -> dict[str, torch.Tensor]:
    # Most matrices show more than 256 numbers in their first rows already.
    if weight.ndim == 2 and len(weight.flatten()[:4096].unique()) <= 256:
        table, codes = weight.unique(return_inverse=True)
        if len(table) <= 256:
            return {name: codes.to(torch.uint8), name + _TABLE: table}
    return {name: weight.bfloat16() if half and weight.is_floating_point() else weight}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("source", type=Path)
    options.add_argument("target", type=Path)
    options.add_argument("--unpack", action="store_true")
    options.add_argument("--half", action="store_true")
    options.add_argument("--tokens", type=Path, nargs="+", default=(), metavar="FEATURES")
    given = options.parse_args()
    if given.unpack:
        unpack(given.source, given.target)
    else:
        pack(given.source, given.target, half=given.half, features=given.tokens)
        print(f"{given.target}: {given.target.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
