"""What is right, made once: models, data, and the folders that mgpp itself writes. The cases start from it."""

import json
import os
import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from mgpp.cli import main
from tests.tiny import reviews, save_corpus, save_reviews, save_tiny_bert, save_tiny_decoder, write_jsonl
from tests.tiny_tasks import questions, save_tiny_bart

SHORT = ["--batch-size=4", "--max-length=16", "--device=cpu", "--eval-batch-size=8"]
RAMP = ["-s", "0.5", "--set", "start=0", "--set", "end=1", "--set", "every=1"]


class World:
    """Folders by name. What a case alters of them is put right again."""

    def __init__(self, room: Path) -> None:
        self.room = room
        self.root = room / "world"
        self._pristine = room / "pristine"
        self.root.mkdir(parents=True)
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            self._make()
        shutil.copytree(self.root, self._pristine, symlinks=True)
        self._seen = snapshot(self.root)

    @property
    def places(self) -> dict[str, Path]:
        return {path.name: path for path in sorted(self.root.iterdir())}

    def restore(self) -> bool:
        """Whether anything had been changed."""
        if snapshot(self.root) == self._seen:
            return False
        shutil.rmtree(self.root)
        shutil.copytree(self._pristine, self.root, symlinks=True)
        self._seen = snapshot(self.root)
        return True

    def _make(self) -> None:
        root = self.root
        save_tiny_bert(root / "bert")
        save_tiny_decoder(root / "llama")
        save_tiny_bart(root / "bart")
        save_reviews(root / "reviews", train=16, validation=8)
        save_corpus(root / "corpus", train=16, validation=8)
        write_jsonl(root / "questions" / "train.jsonl", questions(8, seed=1))
        write_jsonl(root / "questions" / "validation.jsonl", questions(4, seed=2))
        write_jsonl(root / "rows.jsonl", reviews(4))
        kept = ["--keep-checkpoints", "--save-steps=1", "--logging-steps=1"]
        _run("prune", root / "bert", root / "reviews", "-o", root / "run", *RAMP, *SHORT, *kept, "--max-steps=4")
        _run("prune", root / "bert", root / "reviews", "-o", root / "unfinished", *RAMP, *SHORT, *kept, "--max-steps=2")
        _unfinish(root / "unfinished")
        shutil.rmtree(root / "run" / "checkpoints")
        _run("export", root / "run", "-o", root / "sparse", "--no-zstd")
        _run("export", root / "run", "-o", root / "shards", "--no-zstd", "--shard-size=8000")
        _run("export", root / "run", "-o", root / "packed", "--zstd", "--values=int8")
        assert (root / "shards" / "model.sparse-00001-of-00004.safetensors").is_file()
        lines = [{"method": "gmp", "sparsity": s, "mean": 0.5 + s / 10, "std": 0.1} for s in (0.5, 0.9)]
        lines.append({"method": None, "sparsity": 0.0, "mean": 0.7, "std": None})
        told = {"methods": ["gmp"], "sparsities": [0.5, 0.9], "metric": "accuracy", "summary": lines, "cells": []}
        (root / "comparison" / "cells").mkdir(parents=True)
        (root / "comparison" / "results.json").write_text(json.dumps(told), encoding="utf-8")


def _run(*words: object) -> None:
    assert main([str(word) for word in words]) == 0, words


def _unfinish(folder: Path) -> None:
    """As if it had been killed after its first step."""
    shutil.rmtree(folder / "checkpoints" / "checkpoint-2")
    for path in folder.iterdir():
        if path.is_file() and path.name != "run.json":
            path.unlink()


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every path below, with the size and time of a file: so that whatever is made, changed or removed shows."""
    found: dict[str, tuple[int, int]] = {}
    for path, folders, files in os.walk(folder):
        for name in folders:
            found[os.path.join(path, name)] = (-1, 0)
        for name in files:
            state = os.lstat(os.path.join(path, name))
            found[os.path.join(path, name)] = (state.st_size, state.st_mtime_ns)
    return found
