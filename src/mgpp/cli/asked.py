"""From what was typed to the settings of a run: a preset's, or none, and the words that override them."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mgpp.presets import Preset, Settings

# As mgpp.methods has them, written out: a command's help does not wait for torch.
METHOD_NAMES = (
    "mgpp, gmp, l2, platon, itp, movement, soft_movement, obert, losparse, prior_annealing, hold_mask, recommended"
)

Model = Annotated[str | None, typer.Argument(help="Model folder or hub id; a preset's, if none is given.")]
Data = Annotated[
    str | None,
    typer.Argument(
        help="Hub name, a parquet, CSV or JSONL file, or a folder with train.* and validation.*; a preset's, if none "
        "is given."
    ),
]
OtherModel = Annotated[str | None, typer.Option("--model", help="The same as MODEL.")]
OtherData = Annotated[str | None, typer.Option("--data", help="The same as DATA: a preset on other rows.")]
PresetName = Annotated[
    str | None, typer.Option("--preset", "-p", help="Start from a preset (mgpp presets), or a file: ./mine.toml.")
]
Sparsity = Annotated[float | None, typer.Option("--sparsity", "-s", help="Fraction of weights to remove, such as 0.9.")]
MethodName = Annotated[
    str | None,
    typer.Option(
        "--method",
        "-m",
        help=f"{METHOD_NAMES}; none fine-tunes without pruning. By default the preset's, or "
        "recommended, a form of mgpp; -m mgpp is the paper's own.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the method: start=0.1, end=2000, spike_var=1e-9."),
]


@dataclass(frozen=True)
class Asked:
    settings: "Settings"
    preset: "Preset | None" = None


def read_asked(
    *,
    preset: str | None,
    places: Mapping[str, Sequence[str | None]],
    sparsity: float | None,
    method: str | None,
    settings: Sequence[str],
    given: Mapping[str, Any],
    prunes: bool = True,
) -> Asked:
    """`places` holds the model and the data, each as it was given: as an argument, as an option, or not at all.

    A command that prunes nothing (`prunes=False`) takes only presets that need no sparsity.
    """
    from mgpp.presets import Settings, load_preset

    chosen = dict(read_setting(setting) for setting in settings)
    if sparsity is not None:
        if "sparsity" in chosen:
            raise ValueError(f"--sparsity {sparsity} and --set sparsity={chosen['sparsity']}: give one of them")
        chosen["sparsity"] = sparsity
    run = {**given, **{name: value for name, words in places.items() if (value := _one(name, words)) is not None}}
    if preset is not None:
        found = load_preset(preset)
        if not prunes and found.needs_sparsity:
            raise ValueError(f"preset {found.name} prunes: run it with mgpp prune")
        return Asked(_from_preset(found, method, chosen).changed(run), found)
    for name in places:
        if name not in run:
            raise ValueError(f"which {name}? give {name.upper()}, or a preset that names one (--preset)")
    return Asked(Settings(run=run, method=_method(method or "recommended", chosen)))


def _from_preset(preset: "Preset", method: str | None, chosen: Mapping[str, Any]) -> "Settings":
    from mgpp.presets import Settings, sparsity_of

    if method == "none":
        _refuse_settings(chosen)
        return preset.dense()
    if preset.method is None:
        if method is None and chosen:
            raise ValueError(f"preset {preset.name} prunes nothing: leave --sparsity and --set out, or name a --method")
        return Settings(run=preset.run, method=None if method is None else _method(method, chosen))
    return preset.settings(sparsity_of(chosen)).changed({}, method=method, settings=chosen)


def _method(name: str, chosen: Mapping[str, Any]) -> dict[str, Any] | None:
    if name == "none":
        _refuse_settings(chosen)
        return None
    from mgpp.methods import METHODS, needs_sparsity, spelled_out

    without = {"sparsity", "structure"} & chosen.keys() or (name in METHODS and not needs_sparsity(name))
    if not without:
        raise ValueError("how many weights should go? give --sparsity, such as --sparsity 0.9 (or --method none)")
    return spelled_out({"method": name, **chosen})


def _refuse_settings(chosen: Mapping[str, Any]) -> None:
    if chosen:
        raise ValueError("method none prunes nothing: leave --sparsity and --set out, or choose a method")


def _one(name: str, words: Sequence[str | None]) -> str | None:
    said = [word for word in words if word is not None]
    if len(said) > 1:
        raise ValueError(f"two {name}s, {' and '.join(said)}: give {name.upper()} or --{name}, not both")
    return said[0] if said else None


def read_setting(setting: str) -> tuple[str, Any]:
    """spike_var=1e-9 → ("spike_var", 1e-9)."""
    key, equals, value = (part.strip() for part in setting.partition("="))
    if not (key and equals and value):
        raise ValueError(f"--set {setting}: write it as KEY=VALUE, such as spike_var=1e-9")
    return key, read_value(value, told=f"--set {setting}")


def read_value(value: str, *, told: str) -> Any:
    """Values are TOML's; words (curvature), epochs (2ep) and structures (2:4) need no quotes."""
    is_word = re.fullmatch(r"[A-Za-z_][\w-]*", value) and value.lower() not in ("true", "false", "inf", "nan")
    is_structure = re.fullmatch(r"\d+[x:]\d+", value)
    value = value.lower() if value in ("True", "False") else value  # as Python has them
    if is_word or is_structure or re.fullmatch(r"[\d.]+\s*ep", value):
        return value
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        raise ValueError(f"{told}: {value!r} is no number, word, true, false or epochs (2ep)") from None
