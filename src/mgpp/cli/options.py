"""Options that several commands share: one for every setting of a run, with its name and what it says."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
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
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint in the folder.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the run in the folder, once the new one has a checkpoint.")
]
KeepCheckpoints = Annotated[bool, typer.Option("--keep-checkpoints", help="Keep them after success.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
_LAST = (Resume, Overwrite, KeepCheckpoints, AsJson)


@dataclass(frozen=True)
class Setting:
    """A field of RunConfig as an option; its flag is the field's name unless others are given."""

    kind: Any
    help: str | None = None
    flags: tuple[str, ...] = ()

    def parameter(self, name: str) -> inspect.Parameter:
        """None, and not the default, where it was not given: what a preset says must not be overruled by it."""
        flag, default = f"--{name.replace('_', '-')}", DEFAULTS[name]
        told = [] if default is None or default is False or default in ((), "") else [f"[default: {default}]"]
        option = typer.Option(*(self.flags or (flag,)), help=" ".join([*([self.help] if self.help else []), *told]))
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[self.kind | None, option]
        )


# In the order in which a command's help shows them.
SETTINGS: dict[str, Setting] = {
    "task": Setting(
        str,
        "One of text, cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, mlm, clm, squad, summarization, xsum, "
        "cnn_dailymail.",
    ),
    "epochs": Setting(float),
    "max_steps": Setting(int, "Optimizer steps, instead of epochs."),
    "batch_size": Setting(int),
    "accumulate": Setting(int, "Batches to one optimizer step."),
    "learning_rate": Setting(float, flags=("--learning-rate", "--lr")),
    "lr_end": Setting(float, "The learning rate falls linearly to this share of itself."),
    "warm_up": Setting(float, "Share of the run over which the learning rate rises."),
    "max_grad_norm": Setting(float, "0 for no clipping."),
    "weight_decay": Setting(float),
    "optimizer": Setting(str, "mgpp, for mgpp.AdamW, or as the Trainer names them: adamw_torch, fused on CUDA."),
    "precision": Setting(str, "fp32, bf16 or fp16."),
    "device": Setting(str, "auto, cpu or cuda."),
    "seed": Setting(int),
    "teacher": Setting(str, "Folder or hub id of a fine-tuned model that this one learns from, too."),
    "distil_temperature": Setting(float, "How soft the teacher's answers are made."),
    "distil_weight": Setting(float, "The teacher's share of the loss, 0 to 1."),
    "distil_hidden": Setting(float, "Weight of the hidden states' squared error; 0 for none."),
    "unlabelled": Setting(str, "Rows of the same texts without labels, which the teacher alone answers."),
    "max_length": Setting(int, "Tokens a text is cut to, or packed into; by default as the task has it."),
    "group_by_length": Setting(bool, "Batches of rows of like length: less padding.", flags=("--group-by-length",)),
    "text": Setting(str, "Column of the text; found by itself where it has a usual name."),
    "text_pair": Setting(str, "Column of the second text of a pair."),
    "label": Setting(str, "Column of the label (ints from 0, strings or floats), the answers or the summary."),
    "train_split": Setting(str, "Split to train on, if not train."),
    "eval_data": Setting(str, "Rows to score on, from elsewhere."),
    "eval_split": Setting(str, "Split to score on, if not validation."),
    "holdout": Setting(float, "Share of the training rows held out where no others are given."),
    "new_head": Setting(bool, "Replace the model's head where it does not fit.", flags=("--new-head",)),
    "trust_remote_code": Setting(
        bool, "Run the Python code that the model brings with it.", flags=("--trust-remote-code",)
    ),
    "doc_stride": Setting(int, "Question answering: tokens that the windows of a long context share."),
    "max_answer_length": Setting(int, "Question answering: tokens of the longest answer."),
    "n_best": Setting(int, "Question answering: spans that a window may offer as the answer."),
    "target_length": Setting(int, "Summarisation: tokens of the longest summary."),
    "beams": Setting(int, "Summarisation: beams of the search when scored."),
    "source_prefix": Setting(str, "Summarisation: words before every document, such as 'summarize: ' for T5."),
    "stream": Setting(bool, "Language modelling: read the corpus as it is needed.", flags=("--stream",)),
    "train_size": Setting(int, "Language modelling: blocks that a streamed corpus holds."),
    "mlm_probability": Setting(float, "Masked language modelling: share of the tokens to predict."),
    "include": Setting(list[str], "Prune only weights that match this glob. May be repeated."),
    "exclude": Setting(list[str], "Leave weights that match this glob dense. May be repeated."),
    "score_before": Setting(
        bool,
        "Score the model before training, too; by default where the task is not scored on text that it writes.",
        flags=("--score-before/--no-score-before",),
    ),
    "eval_batch_size": Setting(int, "Rows scored at a time."),
    "eval_steps": Setting(int, "Score during training, too."),
    "logging_steps": Setting(int),
    "save_steps": Setting(int, "Steps from checkpoint to checkpoint; the last step has one always."),
    "workers": Setting(int, "Processes that load data."),
    "report_to": Setting(list[str], "tensorboard (into the run's folder), wandb, mlflow, ... May be repeated."),
}


def with_settings(*names: str, but: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A command whose `**given` are the settings that were given: those of `names` (all, if none), less `but`."""
    chosen = [name for name in SETTINGS if (not names or name in names) and name not in but]

    def wrap(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def call(**values: Any) -> Any:
            given = {name: values.pop(name) for name in chosen}
            if given.get("trust_remote_code"):
                say_trusted(values.get("model"))
            return command(**values, **{name: _plain(value) for name, value in given.items() if value is not None})

        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(command, eval_str=True).parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        last = [parameter for parameter in own if parameter.annotation in _LAST]
        first = [parameter for parameter in own if parameter.annotation not in _LAST]
        shared = [SETTINGS[name].parameter(name) for name in chosen]
        call.__signature__ = inspect.Signature([*first, *shared, *last])  # type: ignore[attr-defined]
        return call

    return wrap


def say_trusted(model: str | None) -> None:
    whose = "the model" if model is None else model
    typer.echo(f"mgpp: warning: running the Python code that {whose} brings with it", err=True)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
