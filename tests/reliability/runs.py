"""The run that is killed, starved and resumed, and what must come out of it whatever happens."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mgpp.disk import LOCK_FILE
from mgpp.run.folder import RESULT_FILE, RUN_FILE, WHOLE_FILE
from tests.tiny import save_reviews, save_tiny_bert

# An event at every step from the ramp's start, a mask that is held, a score on the way, and three checkpoints.
SETTINGS = [
    "--method=gmp", "--sparsity=0.75", "--set=hold=true", "--set=start=2", "--set=end=8", "--set=every=1",
    "--batch-size=8", "--lr=5e-3", "--logging-steps=1", "--eval-steps=5", "--device=cpu", "--seed=3",
]  # fmt: skip
# Beside the folder's name these are all that two runs may differ in: the clock, and what was committed meanwhile.
FREE = {"seconds", "loader_share", "commit"}

Session = Callable[[Sequence[str]], int]


def save_given(folder: Path) -> tuple[Path, Path]:
    return save_tiny_bert(folder / "bert"), save_reviews(folder / "reviews")


def command(given: tuple[Path, Path], output: Path, *, steps: int = 10, save_steps: int = 3) -> list[str]:
    model, data = given
    length = [f"--max-steps={steps}", f"--save-steps={save_steps}"]
    return ["prune", str(model), str(data), "--output", str(output), *SETTINGS, *length]


def go_on(words: Sequence[str], folder: Path) -> list[str]:
    """The same command, with --resume where a run has begun."""
    return [*words, "--resume"] if (folder / RUN_FILE).exists() else list(words)


def is_finished(folder: Path) -> bool:
    return (folder / RESULT_FILE).exists()


def outcome(folder: Path) -> dict[str, Any]:
    """All that a run leaves, byte for byte: weights with their zeros, records, card, metrics.

    Not the lock, which one that was killed after its end may have left there. It locks nothing.
    """
    found: dict[str, Any] = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    found.pop(LOCK_FILE, None)
    result = json.loads(found.pop(RESULT_FILE))
    del found[RUN_FILE]
    result["config"] = {**result["config"], "output": None}
    card = found.pop("README.md").decode().replace(str(folder), "FOLDER")
    return {**found, "card": card, **{key: value for key, value in result.items() if key not in FREE}}


def require_same(folder: Path, whole: Path) -> None:
    mine, expected = outcome(folder), outcome(whole)
    different = sorted(key for key in mine.keys() | expected.keys() if mine.get(key) != expected.get(key))
    assert not different, f"{folder} and {whole} differ in {', '.join(different)}"


def stage(folder: Path) -> str:
    """What was going on when the run was killed, as its folder tells."""
    if (folder / ".draft").exists():
        return "writing the model"
    checkpoints = list((folder / "checkpoints").glob("checkpoint-*"))
    if any(not (path / WHOLE_FILE).exists() for path in checkpoints):
        return "saving a checkpoint"
    return "training or scoring, after a checkpoint" if checkpoints else "before the first checkpoint"


def start_anew(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
