"""Where presets lie: those that come with the package, by name, and files of the user's own, by path."""

import difflib
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from mgpp.presets.preset import Preset
from mgpp.presets.read import read_preset


def names() -> list[str]:
    """Such as bert-base/mnli: the model's folder and the row in it."""
    return sorted(_shipped())


def read_text(name: str) -> str:
    """A shipped preset as it is written, its comments included."""
    # Looked up, never joined to a path: whatever a name says, it cannot lead out of the package.
    shipped = _shipped()
    if name not in shipped:
        raise ValueError(_unknown(name, list(shipped)))
    return shipped[name].read_text(encoding="utf-8")


def load_preset(name: str) -> Preset:
    """`name` is a shipped preset's, or the path of a file: ./mine.toml, or anything that ends in .toml."""
    if not is_path(name):
        return read_preset(read_text(name), name=name)
    path = Path(name).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"preset {name} is not there: `mgpp presets copy NAME {name}` makes one to change")
    try:
        return read_preset(path.read_text(encoding="utf-8"), name=str(path))
    except UnicodeDecodeError as error:
        raise ValueError(f"preset {path} is no text in UTF-8 ({error})") from None


def is_path(name: str) -> bool:
    return name.endswith(".toml") or name.startswith((".", "/", "~"))


def _shipped() -> dict[str, Traversable]:
    return {
        f"{folder.name}/{file.name.removesuffix('.toml')}": file
        for folder in files("mgpp.presets").iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    }


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    # A row that several models have is most likely meant by its own name.
    near = [one for one in known if one.split("/")[1] == name][:3] or near
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return f"there is no preset {name!r}: {meant}`mgpp presets` lists them, and a file of your own is ./{name}.toml"
