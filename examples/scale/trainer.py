"""Fine-tune a classifier and prune it on the way, in a Trainer: the same script for DDP, FSDP2 and ZeRO.

    accelerate launch --config_file examples/scale/accelerate/fsdp2.yaml \
        examples/scale/trainer.py MODEL TRAIN.jsonl --output out

MODEL is a folder or a hub id; every line of TRAIN.jsonl is {"text": "...", "label": 0}. The config says which engine.
The same line with --resume goes on from the last checkpoint.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

import mgpp


def main(arguments: Sequence[str] | None = None) -> Trainer:
    args = parse(arguments)
    # Before the model: with ZeRO 3 this is what lets it be loaded in shards.
    settings = TrainingArguments(
        output_dir=str(args.output),
        max_steps=args.steps,
        per_device_train_batch_size=args.batch_size,
        learning_rate=args.lr,
        save_steps=args.save_steps,
        logging_steps=10,
        report_to="none",
        use_cpu=args.cpu,
        ddp_timeout=50,  # seconds: whoever waits for a process that has gone gives up, and says so
    )
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    trainer = Trainer(
        model=AutoModelForSequenceClassification.from_pretrained(args.model),
        args=settings,
        train_dataset=rows(args.data, tokenizer),
        data_collator=DataCollatorWithPadding(tokenizer),
        callbacks=[mgpp.PruningCallback(mgpp.MGPP(sparsity=args.sparsity))],
    )
    trainer.train(resume_from_checkpoint=args.resume)
    trainer.save_model()
    return trainer


def rows(path: str, tokenizer: Any) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    return [{**tokenizer(row["text"], truncation=True), "labels": row["label"]} for row in found]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--sparsity", type=float, default=0.9)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=8, help="of each process")
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--save-steps", type=int, default=200)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--resume", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
