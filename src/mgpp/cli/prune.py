"""`mgpp prune`: fine-tune a pretrained model and prune it on the way."""

import json
import re
import tomllib
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mgpp.cli.progress import TrainingBar
from mgpp.methods import METHODS, Method, from_dict
from mgpp.run import RunConfig, run

DEFAULTS: dict[str, Any] = {field: value.default for field, value in RunConfig.__dataclass_fields__.items()}

Text = Annotated[
    str | None, typer.Option("--text", help="Column of the text; found by itself where it has a usual name.")
]
TextPair = Annotated[str | None, typer.Option("--text-pair", help="Column of the second text of a pair.")]
Label = Annotated[str, typer.Option("--label", help="Column of the label: ints from 0, strings, or floats.")]
EvalSplit = Annotated[str | None, typer.Option("--eval-split", help="Split to score on, if not validation.")]
MaxLength = Annotated[int, typer.Option("--max-length", help="Tokens a text is cut to.")]
EvalBatchSize = Annotated[int, typer.Option("--eval-batch-size", help="Rows scored at a time.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Include = Annotated[
    list[str] | None, typer.Option("--include", help="Prune only weights that match this glob. May be repeated.")
]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude", help="Leave weights that match this glob dense. May be repeated.")
]


def prune(
    model: Annotated[str, typer.Argument(help="Model folder or hub id.", show_default=False)],
    data: Annotated[
        str,
        typer.Argument(
            help="Hub name, a parquet, CSV or JSONL file, or a folder with train.* and validation.*.",
            show_default=False,
        ),
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="Folder to write.", show_default=False)],
    sparsity: Annotated[
        float | None, typer.Option("--sparsity", "-s", help="Fraction of weights to remove, such as 0.9.")
    ] = None,
    method: Annotated[
        str, typer.Option("--method", "-m", help=f"{', '.join(METHODS)}; none fine-tunes without pruning.")
    ] = "mgpp",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A setting of the method: start=0.1, end=2000, spike_var=1e-9."
        ),
    ] = None,
    epochs: Annotated[float, typer.Option("--epochs")] = DEFAULTS["epochs"],
    max_steps: Annotated[int | None, typer.Option("--max-steps", help="Optimizer steps, instead of epochs.")] = None,
    batch_size: Annotated[int, typer.Option("--batch-size")] = DEFAULTS["batch_size"],
    accumulate: Annotated[int, typer.Option("--accumulate", help="Batches to one optimizer step.")] = 1,
    learning_rate: Annotated[float, typer.Option("--learning-rate", "--lr")] = DEFAULTS["learning_rate"],
    lr_end: Annotated[
        float, typer.Option("--lr-end", help="The learning rate falls linearly to this share of itself.")
    ] = DEFAULTS["lr_end"],
    warm_up: Annotated[
        float, typer.Option("--warm-up", help="Share of the run over which the learning rate rises.")
    ] = DEFAULTS["warm_up"],
    max_grad_norm: Annotated[float, typer.Option("--max-grad-norm", help="0 for no clipping.")] = DEFAULTS[
        "max_grad_norm"
    ],
    weight_decay: Annotated[float, typer.Option("--weight-decay")] = DEFAULTS["weight_decay"],
    optimizer: Annotated[
        str, typer.Option("--optimizer", help="As the Trainer names them; adamw_torch is fused on CUDA.")
    ] = DEFAULTS["optimizer"],
    precision: Annotated[str, typer.Option("--precision", help="fp32, bf16 or fp16.")] = DEFAULTS["precision"],
    device: Device = DEFAULTS["device"],
    seed: Annotated[int, typer.Option("--seed")] = DEFAULTS["seed"],
    max_length: MaxLength = DEFAULTS["max_length"],
    group_by_length: Annotated[
        bool, typer.Option("--group-by-length", help="Batches of rows of like length: less padding.")
    ] = False,
    text: Text = None,
    text_pair: TextPair = None,
    label: Label = DEFAULTS["label"],
    eval_data: Annotated[str | None, typer.Option("--eval-data", help="Rows to score on, from elsewhere.")] = None,
    eval_split: EvalSplit = None,
    holdout: Annotated[
        float, typer.Option("--holdout", help="Share of the training rows held out where no others are given.")
    ] = DEFAULTS["holdout"],
    new_head: Annotated[
        bool, typer.Option("--new-head", help="Replace the model's classification head where it does not fit.")
    ] = False,
    include: Include = None,
    exclude: Exclude = None,
    eval_batch_size: EvalBatchSize = DEFAULTS["eval_batch_size"],
    eval_steps: Annotated[int | None, typer.Option("--eval-steps", help="Score during training, too.")] = None,
    logging_steps: Annotated[int, typer.Option("--logging-steps")] = DEFAULTS["logging_steps"],
    save_steps: Annotated[int, typer.Option("--save-steps", help="Steps from checkpoint to checkpoint.")] = DEFAULTS[
        "save_steps"
    ],
    workers: Annotated[int, typer.Option("--workers", help="Processes that load data.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    keep_checkpoints: Annotated[bool, typer.Option("--keep-checkpoints", help="Keep them after success.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fine-tune MODEL on DATA and prune it on the way.

    The folder then holds an ordinary checkpoint for from_pretrained, a model card, records.jsonl and result.json.
    """
    given = {name: value for name, value in locals().items() if name in DEFAULTS}
    given |= {
        "method": read_method(method, sparsity, settings or []),
        "include": tuple(include or ()),
        "exclude": tuple(exclude or ()),
    }
    console = Console(stderr=True, highlight=False)
    with TrainingBar(console) as bar:
        result = run(
            RunConfig(**given),
            resume=resume,
            overwrite=overwrite,
            keep_checkpoints=keep_checkpoints,
            callbacks=[bar],
            tell=lambda line: console.print(line, markup=False, soft_wrap=True),
        )
    if as_json:
        typer.echo(json.dumps(result))
    else:
        Console(highlight=False).print(summary(result))


def read_method(name: str, sparsity: float | None, settings: list[str]) -> Method | None:
    chosen = dict(read_setting(setting) for setting in settings)
    if name == "none":
        if sparsity is not None or chosen:
            raise ValueError("method none prunes nothing: leave --sparsity and --set out, or choose a method")
        return None
    if sparsity is None and "sparsity" not in chosen:
        raise ValueError("how many weights should go? give --sparsity, such as --sparsity 0.9 (or --method none)")
    return from_dict({"method": name, **({} if sparsity is None else {"sparsity": sparsity}), **chosen})


def read_setting(setting: str) -> tuple[str, Any]:
    """spike_var=1e-9 → ("spike_var", 1e-9). Values are TOML's; epochs (2ep) need no quotes."""
    key, equals, value = (part.strip() for part in setting.partition("="))
    if not (key and equals and value):
        raise ValueError(f"--set {setting}: write it as KEY=VALUE, such as spike_var=1e-9")
    if re.fullmatch(r"[\d.]+\s*ep", value):
        return key, value
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        raise ValueError(f"--set {setting}: {value!r} is no number, true, false or epochs (2ep)") from None


def summary(result: dict[str, Any]) -> Table:
    method = result["method"]
    title = "dense" if method is None else f"{method['method'].upper()} at {result['target_sparsity']:g}"
    table = Table("", "before", "after", title=title, title_justify="left")
    for name in result["after"]:
        table.add_row(name, f"{result['before'][name]:.4f}", f"{result['after'][name]:.4f}")
    table.add_section()
    table.add_row("sparsity", "", f"{result['sparsity']:.6f}")
    table.add_row("zeros / prunable", "", f"{result['zeros']:,} / {result['prunable']:,}")
    table.add_row("steps", "", f"{result['steps']:,}")
    table.add_row("seconds", "", f"{result['seconds']:.1f}")
    table.add_row("folder", "", result["config"]["output"])
    return table
