"""Options that several commands share: their names and what they say."""

from typing import Annotated, Any

import typer

from mgpp.run import RunConfig

DEFAULTS: dict[str, Any] = {field: value.default for field, value in RunConfig.__dataclass_fields__.items()}

Model = Annotated[str, typer.Argument(help="Model folder or hub id.", show_default=False)]
Data = Annotated[
    str,
    typer.Argument(
        help="Hub name, a parquet, CSV or JSONL file, or a folder with train.* and validation.*.", show_default=False
    ),
]
Output = Annotated[str, typer.Option("--output", "-o", help="Folder to write.", show_default=False)]

Text = Annotated[
    str | None, typer.Option("--text", help="Column of the text; found by itself where it has a usual name.")
]
TextPair = Annotated[str | None, typer.Option("--text-pair", help="Column of the second text of a pair.")]
Label = Annotated[str, typer.Option("--label", help="Column of the label: ints from 0, strings, or floats.")]
EvalData = Annotated[str | None, typer.Option("--eval-data", help="Rows to score on, from elsewhere.")]
EvalSplit = Annotated[str | None, typer.Option("--eval-split", help="Split to score on, if not validation.")]
Holdout = Annotated[
    float, typer.Option("--holdout", help="Share of the training rows held out where no others are given.")
]
MaxLength = Annotated[int, typer.Option("--max-length", help="Tokens a text is cut to.")]
NewHead = Annotated[
    bool, typer.Option("--new-head", help="Replace the model's classification head where it does not fit.")
]

Epochs = Annotated[float, typer.Option("--epochs")]
MaxSteps = Annotated[int | None, typer.Option("--max-steps", help="Optimizer steps, instead of epochs.")]
BatchSize = Annotated[int, typer.Option("--batch-size")]
Accumulate = Annotated[int, typer.Option("--accumulate", help="Batches to one optimizer step.")]
LearningRate = Annotated[float, typer.Option("--learning-rate", "--lr")]
LrEnd = Annotated[float, typer.Option("--lr-end", help="The learning rate falls linearly to this share of itself.")]
WarmUp = Annotated[float, typer.Option("--warm-up", help="Share of the run over which the learning rate rises.")]
MaxGradNorm = Annotated[float, typer.Option("--max-grad-norm", help="0 for no clipping.")]
WeightDecay = Annotated[float, typer.Option("--weight-decay")]
Optimizer = Annotated[str, typer.Option("--optimizer", help="As the Trainer names them; adamw_torch is fused on CUDA.")]
Precision = Annotated[str, typer.Option("--precision", help="fp32, bf16 or fp16.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
GroupByLength = Annotated[bool, typer.Option("--group-by-length", help="Batches of rows of like length: less padding.")]

DistilTemperature = Annotated[
    float, typer.Option("--distil-temperature", help="How soft the teacher's answers are made.")
]
DistilWeight = Annotated[float, typer.Option("--distil-weight", help="The teacher's share of the loss, 0 to 1.")]
DistilHidden = Annotated[
    float, typer.Option("--distil-hidden", help="Weight of the hidden states' squared error; 0 for none.")
]

Include = Annotated[
    list[str] | None, typer.Option("--include", help="Prune only weights that match this glob. May be repeated.")
]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude", help="Leave weights that match this glob dense. May be repeated.")
]
EvalBatchSize = Annotated[int, typer.Option("--eval-batch-size", help="Rows scored at a time.")]
LoggingSteps = Annotated[int, typer.Option("--logging-steps")]
SaveSteps = Annotated[int, typer.Option("--save-steps", help="Steps from checkpoint to checkpoint.")]
ReportTo = Annotated[
    list[str] | None,
    typer.Option("--report-to", help="tensorboard (into the run's folder), wandb, mlflow, ... May be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
