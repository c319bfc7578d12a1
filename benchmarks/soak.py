"""A long run with an event at every step, and how much memory it takes on the way.

    OMP_NUM_THREADS=1 python benchmarks/soak.py --output benchmarks/results/NAME.json

A tiny BERT is pruned by `mgpp prune` itself, with records, scores and checkpoints, on rows made up here. The process's
memory (and a GPU's, where there is one) is read every hundredth of the run. It exits with code 1 when the memory is not
flat: when any reading after the warm-up, a tenth of the run, is more than --slack MiB above the warm-up's last.
"""

import argparse
import gc
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertModel, BertTokenizerFast, TrainerCallback

from mgpp.bench.results import append
from mgpp.methods import METHODS, from_dict
from mgpp.run import RunConfig, run
from mgpp.run.result import provenance

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{number}" for number in range(59))]
MIB = 2**20


class Memory(TrainerCallback):
    """Bytes that the process has in memory, and that its tensors have on a GPU, at a hundred steps of the run."""

    def __init__(self) -> None:
        self.readings: list[dict[str, int]] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % max(1, state.max_steps // 100):
            return
        gc.collect()  # what only waits to be collected has not been lost
        reading = {"step": state.global_step, "rss": resident()}
        if torch.cuda.is_available():
            reading["cuda"] = torch.cuda.memory_allocated()
        self.readings.append(reading)


def resident() -> int:
    fields = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in fields if line.startswith("VmRSS:"))


def growth(readings: Sequence[dict[str, int]], key: str) -> int:
    """Bytes by which the highest reading after the warm-up is above the last one in it."""
    warm = max(1, len(readings) // 10)
    return max(reading[key] for reading in readings[warm:]) - readings[warm - 1][key]


def save_given(folder: Path) -> tuple[Path, Path]:
    model, data = folder / "model", folder / "data"
    model.mkdir(parents=True)
    (model / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    BertTokenizerFast(vocab=str(model / "vocab.txt"), model_max_length=32).save_pretrained(model)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **shape)).save_pretrained(model)
    data.mkdir()
    draw = random.Random(0)
    for name, count in (("train", 256), ("validation", 64)):
        rows = [{"text": " ".join(draw.choices(WORDS[5:], k=8)), "label": number % 2} for number in range(count)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (data / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return model, data


def soak(method: str, steps: int) -> list[dict[str, int]]:
    memory = Memory()
    ramp = {"sparsity": 0.9, "start": steps // 100, "end": steps // 2, "every": 1}
    with tempfile.TemporaryDirectory(prefix="mgpp-soak-") as place:
        model, data = save_given(Path(place))
        config = RunConfig(
            model=str(model),
            data=str(data),
            output=str(Path(place) / "out"),
            method=from_dict({"method": method, **ramp}),
            max_steps=steps,
            batch_size=8,
            max_length=16,
            logging_steps=50,
            eval_steps=steps // 10,
            save_steps=max(50, steps // 1000 * 50),
        )
        result = run(config, callbacks=[memory], tell=lambda line: print(line, file=sys.stderr))
    assert result["sparsity"] == int(0.9 * result["prunable"]) / result["prunable"]
    return memory.readings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--method", choices=list(METHODS), default="mgpp")
    parser.add_argument("--slack", type=float, default=8.0, help="MiB")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    readings = soak(asked.method, asked.steps)
    kinds = [key for key in readings[0] if key != "step"]
    rows = [
        {
            "name": {"rss": "the process", "cuda": "tensors on the GPU"}[key],
            "steps": asked.steps,
            "after_warm_up_mib": round(readings[max(1, len(readings) // 10) - 1][key] / MIB, 1),
            "at_the_end_mib": round(readings[-1][key] / MIB, 1),
            "growth_mib": round(growth(readings, key) / MIB, 2),
        }
        for key in kinds
    ]
    result = {
        "what": "soak",
        "command": " ".join(["python", *sys.argv]),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **provenance(),
        "method": asked.method,
        "slack_mib": asked.slack,
        "rows": rows,
        "readings": readings,
    }
    print(json.dumps({**result, "readings": len(readings)}, indent=1))
    if asked.output is not None:
        append(asked.output, result)
    if any(row["growth_mib"] > asked.slack for row in rows):
        print(f"the memory is not flat: more than {asked.slack} MiB above the warm-up's", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
