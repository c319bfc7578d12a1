"""A model's folder as one small file, to be carried where nothing can be downloaded, and as a folder again.

    python experiments/weights/pack.py models/flan-t5-small flan.tar.xz
    python experiments/weights/pack.py --unpack flan.tar.xz models/flan-t5-small
    python experiments/weights/pack.py --half MODEL FILE         other weights in bfloat16: half the size, rounded

A matrix that was int8 once holds 256 numbers at most: a byte for each weight and a table keep it to the bit.
"""

import argparse
import shutil
import tarfile
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

WEIGHTS = "model.safetensors"
PACKED = "packed.safetensors"
_TABLE = "#table"


def pack(folder: Path, file: Path, *, half: bool) -> None:
    with tempfile.TemporaryDirectory() as room:
        packed: dict[str, torch.Tensor] = {}
        for name, weight in load_file(folder / WEIGHTS).items():
            packed |= _packed(name, weight, half=half)
        save_file(packed, Path(room) / PACKED)
        for other in sorted(folder.iterdir()):
            if other.is_file() and other.suffix not in (".bin", ".safetensors"):
                shutil.copy(other, room)
        with tarfile.open(file, "w:xz", preset=2) as archive:
            for part in sorted(Path(room).iterdir()):
                archive.add(part, part.name)


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
    given = options.parse_args()
    if given.unpack:
        unpack(given.source, given.target)
    else:
        pack(given.source, given.target, half=given.half)
        print(f"{given.target}: {given.target.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
